"""The lines before a table of nccl-tests: version, command, settings, and the list of ranks and devices."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankmuster.evidence.nccl_tests_sizes import Series
from rankmuster.model.benchmark import BenchmarkRank

MOST_ARGUMENTS = 64
OLD_SCALE = 10_000
"""NCCL's version number is below this up to 2.8 (major * 1000 + minor * 100 + patch); since then major * 10000 + ..."""

_VERSION = re.compile(r"(nccl|rccl)-tests(?: version |: Version )(\S{1,60})(?:.*?nccl-library=(\d{3,6}))?")
_STARTING = re.compile(r"# Collective test starting: (\S{1,200})")
_SETTINGS = re.compile(
    r"nThreads? (\d{1,5}) nGpus (\d{1,5}) minBytes (\d{1,20}) maxBytes (\d{1,20}) step: (\d{1,20}) ?\((factor|bytes)\)",
    re.ASCII,
)
_KEPT = (
    ("warmup_iters", re.compile(r"\bwarmup iters: (\d{1,12})", re.ASCII)),
    ("iters", re.compile(r"(?<!warmup )(?<!agg )\biters: (\d{1,12})", re.ASCII)),
    ("agg_iters", re.compile(r"\bagg iters: (\d{1,12})", re.ASCII)),
    ("validation", re.compile(r"\bvalidation: (\d{1,12})", re.ASCII)),
    ("graph", re.compile(r"\bgraph: (\d{1,12})", re.ASCII)),
    ("unalign", re.compile(r"\bunalign: (\d{1,12})", re.ASCII)),
)
_REDUCED = re.compile(r"Reducing maxBytes to (\d{1,20}) due to memory limitation")
_RANK = re.compile(
    r"\bRank\s+(\d{1,7})\s+(?:Group\s+(\d{1,7})\s+)?Pid\s+(\d{1,10})\s+on\s+(\S{1,255})\s+device\s+(\d{1,4})\s+"
    r"\[([0-9a-fA-Fx:.]{1,20})\]\s*(.{0,100}?)\s*$",
    re.ASCII,
)
_LIKE_RANK = re.compile(r"^#?\s{0,8}Rank\s.{0,400}?\bPid\s")
_COMMAND = re.compile(
    r"(?:^|[\s/'\"=])([\w./\-]{0,200}?\w{2,20}_perf(?:_\w{1,20})?)((?:\s+(?:-{1,2}[\w-]{1,30}|[\w./,:=-]{1,200}))*)"
)
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}")
_NCCL_VERSION = re.compile(r"NCCL version (\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)")


@dataclass(frozen=True, slots=True)
class Settings:
    """`validation`, `graph`: None where this version does not print them. `kept`: as `BenchmarkRun.settings` has it."""

    threads: int
    gpus: int
    series: Series
    validation: bool | None
    graph: bool | None
    kept: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """One `Rank` line."""

    group: int
    rank: BenchmarkRank


def tool_version(line: str) -> tuple[str, str | None] | None:
    """(version of nccl-tests, of NCCL) of its first line."""
    found = _VERSION.search(line)
    if found is None:
        return None
    return (found[2] if found[1] == "nccl" else f"rccl-tests {found[2]}"), nccl_version(found[3])


def nccl_version(number: str | None) -> str | None:
    """ "22809" as "2.28.9"."""
    if not number or not number.isdigit():
        return None
    code = int(number)
    scale = 1000 if code < OLD_SCALE else OLD_SCALE
    return f"{code // scale}.{code % scale // 100}.{code % 100}"


def nccl_said(line: str) -> str | None:
    """The version in NCCL's own line."""
    found = _NCCL_VERSION.search(line)
    return found[1] if found else None


def program(line: str) -> str | None:
    """`all_reduce_perf`, as the tool says what it starts."""
    found = _STARTING.search(line)
    return found[1] if found else None


def command(line: str) -> tuple[str, ...] | None:
    """The tool's own part of a command line: what a launcher is given before it may hold anything."""
    found = _COMMAND.search(line)
    if found is None or "Collective test" in line:
        return None
    return (found[1], *found[2].split()[:MOST_ARGUMENTS])


def settings(line: str) -> Settings | None:
    """The line of settings, `nThread 1 nGpus 8 minBytes ...`."""
    found = _SETTINGS.search(line)
    if found is None:
        return None
    number = int(found[5])
    factor = number if found[6] == "factor" else None
    series = Series(int(found[3]), int(found[4]), factor, None if factor else number)
    said = {name: value[1] for name, pattern in _KEPT if (value := pattern.search(line)) is not None}
    return Settings(
        int(found[1]),
        int(found[2]),
        series,
        int(said["validation"]) > 0 if "validation" in said else None,
        int(said["graph"]) > 0 if "graph" in said else None,
        (("threads", found[1]), ("gpus", found[2]), *said.items()),
    )


def reduced(line: str) -> int | None:
    """The largest size that the GPUs' memory leaves, where it is less than what was asked for."""
    found = _REDUCED.search(line)
    return int(found[1]) if found else None


def is_rank(line: str) -> bool:
    """Whether it is a line of the list of ranks, also one that makes no sense."""
    return _LIKE_RANK.match(line) is not None


def device(line: str) -> Device | None:
    """One rank and its device."""
    found = _RANK.search(line)
    if found is None:
        return None
    bus_id = found[6].lower()
    rank = BenchmarkRank(
        int(found[1]),
        found[4],
        int(found[3]),
        int(found[5]),
        bus_id[-10:] if _BUS_ID.fullmatch(bus_id) else None,  # old versions print the bus alone
        found[7].replace("...", "").strip() or None,
    )
    return Device(int(found[2] or 0), rank)
