"""One line of an NCCL_DEBUG log, in every layout since 2.4 (format: NCCL src/debug.cc, `ncclDebugLog`).

What stands before the message changed with the releases (a time since 2.26, a function since 2.30.7, the level ATTN
since 2.32) and with who carried the line: launchers, container runtimes and engines put labels in front, and ranks
that share a stdout write into each other's lines. So a line is not matched from its start: every ` NCCL <LEVEL> ` in
it is found, and what stands before it is read backwards to `HOST:PID:TID [DEV]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from sys import intern

from rankmuster.evidence import times
from rankmuster.model.stamp import Stamp


class Level(str, Enum):
    """NCCL's own levels. VERSION stands for the bare `NCCL version X.Y.Z+cudaA.B`, which carries no origin."""

    WARN = "WARN"
    ATTN = "ATTN"  # 2.32 and later, laid out like WARN
    INFO = "INFO"
    CALL = "CALL"
    TRACE = "TRACE"
    VERSION = "VERSION"


@dataclass(frozen=True, slots=True)
class NcclLine:
    """The parts of one line. `rank` and `stamp` come from what stands before the host; `file` is `init.cc:1010`."""

    host: str | None
    pid: int | None
    tid: int | None
    dev: int | None
    rank: int | None
    stamp: Stamp | None
    level: Level
    file: str | None
    message: str


_HEAD_WINDOW = 512
"""Characters before ` NCCL <LEVEL> ` in which its origin is sought: a host name has at most 255, file and function
fewer than 200. The window keeps the search linear in lines of any length."""

_MAX_PREFIXES = 4096
"""Distinct prefixes remembered per log. They repeat within a second (time) or a rank (label)."""

_PLAIN = re.compile(
    r"(?:\[[^\[\]]{4,40}\] )?([^\s:\[\]<>()]{1,255}):(\d{1,10}):(\d{1,10}) (?:\[(-?\d{1,4})\] )?NCCL INFO "
)
_MARK = re.compile(r"NCCL (WARN|ATTN|INFO|CALL|TRACE) ")
_HEAD = re.compile(
    r"(?:\[[^\[\]]{4,40}\] )?(?P<host>[^\s:\[\]<>()]{1,255}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10})"
    r"(?: \[(?P<dev>-?\d{1,4})\])? "
    r"(?:\d+\.\d+ \S{1,120}:\d+ |(?P<file>[^\s:]{1,160}:\w{1,9}) (?:\([^()]{0,160}\) )?|\w{1,120}, \d+ )?$"
)
_VERSION = re.compile(r"^(?P<prefix>[^\n]{0,200}[\]\)>|: ])?(?P<message>NCCL version \d[\w.\-]*\+cuda\S*)\s*$")
_HEADLESS = re.compile(r"^(?:[^\n]{0,200}[\]\)>|:])?\s*(?:(?P<file>[^\s:]{1,160}:\w{1,9}) )?$")
_RANK = re.compile(
    r"\[rank ?(\d{1,6})\]"  # torchrun, torch
    r"|^\s*(\d{1,6}): "  # srun --label
    r"|\[\d+,(\d{1,6})\]<std(?:out|err|diag)>"  # mpirun --tag-output
    r"|[(\s]rank[ =](\d{1,6})\b",  # engines: (VllmWorker rank=3 pid=71)
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\[[^\[\]]{4,40}\] ?$")


def _rank_in(prefix: str) -> int | None:
    match = _RANK.search(prefix)
    if match is None:
        return None
    return next(int(group) for group in match.groups() if group is not None)


class LineParser:
    """Reads the lines of one log; remembers prefixes, so that the same second is not read a thousand times."""

    def __init__(self) -> None:
        self._prefixes: dict[str, tuple[Stamp | None, int | None]] = {}

    def parse(self, line: str) -> Iterator[NcclLine]:
        """Every NCCL line that begins in this line of text: none, one, or several that were written into each other."""
        plain = _PLAIN.match(line)
        if plain is not None and line.find("NCCL ", plain.end()) < 0:
            host, pid, tid, dev = plain.groups()
            stamp, rank = self._prefix(line[: plain.start(1)])
            yield NcclLine(
                intern(host),
                int(pid),
                int(tid),
                int(dev) if dev else None,
                rank,
                stamp,
                Level.INFO,
                None,
                line[plain.end() :],
            )
            return
        yield from self._several(line)

    def _several(self, line: str) -> Iterator[NcclLine]:
        starts: list[tuple[int, re.Match[str], re.Match[str] | None]] = []
        floor = 0
        for mark in _MARK.finditer(line):
            window = max(floor, mark.start() - _HEAD_WINDOW)
            head = _HEAD.search(line[window : mark.start()])
            if head is not None:
                starts.append((window + head.start(), mark, head))
            elif window == 0 and floor == 0 and _HEADLESS.match(line[: mark.start()]):
                # Shortened in a report ("NCCL WARN Call to ..."): believed only where nothing but a label precedes.
                starts.append((mark.start(), mark, None))
            floor = mark.end()
        if not starts:
            version = _VERSION.match(line) if "NCCL version " in line else None
            if version is not None:
                stamp, rank = self._prefix(version["prefix"] or "")
                yield NcclLine(None, None, None, None, rank, stamp, Level.VERSION, None, version["message"])
            return
        for index, (start, mark, head) in enumerate(starts):
            end = starts[index + 1][0] if index + 1 < len(starts) else len(line)
            yield self._line(line, start, end, mark, head, first=index == 0)

    def _line(
        self, line: str, start: int, end: int, mark: re.Match[str], head: re.Match[str] | None, *, first: bool
    ) -> NcclLine:
        message = line[mark.end() : end]
        level = Level(mark[1])
        if head is None:
            before = line[:start]
            stamp, rank = self._prefix(before)
            headless = _HEADLESS.match(before)
            return NcclLine(None, None, None, None, rank, stamp, level, headless["file"] if headless else None, message)
        host_at = start + head.start("host") - head.start()
        # What precedes a line that began inside another one is that one's message: only a time may be taken from it.
        before = line[max(0, host_at - _HEAD_WINDOW) : host_at] if first else line[start:host_at]
        stamp, rank = self._prefix(before)
        dev = head["dev"]
        return NcclLine(
            intern(head["host"]),
            int(head["pid"]),
            int(head["tid"]),
            int(dev) if dev else None,
            rank,
            stamp,
            level,
            head["file"],
            message,
        )

    def _prefix(self, prefix: str) -> tuple[Stamp | None, int | None]:
        """(time, rank) of what stands before the host. NCCL's own time is the last bracket; a carrier's may precede."""
        known = self._prefixes.get(prefix)
        if known is not None:
            return known
        stamp: Stamp | None = None
        rank: int | None = None
        if prefix:
            stamp = times.iso(prefix)
            if stamp is None:
                last = _BRACKETED.search(prefix)
                stamp = times.any_of(last[0]) if last else times.any_of(prefix)
            rank = _rank_in(prefix)
        if len(self._prefixes) >= _MAX_PREFIXES:
            self._prefixes.clear()
        self._prefixes[prefix] = (stamp, rank)
        return stamp, rank
