"""nccl-tests' `-J` file, versions 1 (2.17.6) to 3 (2.19.6), whole or cut (format: nccl-tests src/util.cu).

The file holds the whole environment of the process, so of it only what `nccl_tests_environment` lets through is ever
kept. Devices are listed one a process, however many GPUs each has; the others are numbered on from it, as the tool
does. Booleans are texts, a number that is none is "nan" or null, and before 2.17.9 the average's name was misspelt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from rankmuster.evidence import json_text
from rankmuster.evidence.json_fields import number
from rankmuster.evidence.nccl_tests_banner import MOST_ARGUMENTS, nccl_version
from rankmuster.evidence.nccl_tests_end import Facts, Failure, Grade, ending
from rankmuster.evidence.nccl_tests_environment import kept, looks_secret
from rankmuster.evidence.nccl_tests_group import Group, Listed, group
from rankmuster.evidence.nccl_tests_operation import of_name, of_program, possible
from rankmuster.evidence.nccl_tests_rows import Placement, Row
from rankmuster.evidence.nccl_tests_runs import (
    CPU_TIME,
    NO_SETTINGS,
    TOOL,
    average_gap,
    contradicted,
    kept_settings,
    unsound,
)
from rankmuster.evidence.nccl_tests_sizes import Series, missing
from rankmuster.evidence.times import iso
from rankmuster.model.benchmark import BenchmarkRank, BenchmarkRun, Cell, Measurement, Operation, Spread

DEPTH = 2
"""Containers deeper than this are whole or left out: of a cut file the last result that is whole is the last."""

MOST_RESULTS = 100_000
MOST_ITERATIONS = 1_000_000
MOST_RANKS = 1_000_000

_KEPT = (
    ("threads", "nthreads"),
    ("gpus", "ngpus"),
    ("warmup_iters", "warmup_iters"),
    ("iters", "iterations"),
    ("agg_iters", "aggregated_iterations"),
    ("validation", "validation"),
    ("graph", "graph"),
    ("unalign", "unalign"),
)

_LOOKS = re.compile(rb'"(?:minimum_bytes|warmup_iters|out_of_place|nccl_version|alg_bw)"\s*:')
_BUS_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}")


def recognises(data: bytes) -> bool:
    """Whether it looks like a file of `-J`."""
    head = data[:65_536]
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and b'"version"' in head and _LOOKS.search(head) is not None


def read(data: bytes, source: str, operation: Operation | None = None) -> BenchmarkRun:
    """The run; one of which nothing can be used is INCOMPLETE, with the reason."""
    parsed = json_text.parse(data, DEPTH)
    document = parsed.value if isinstance(parsed.value, dict) else {}
    config = _mapping(document.get("config"))
    ranks = _ranks(config)
    arguments = _arguments(document.get("args"))
    results = [_mapping(one) for one in _list(document.get("results"))[:MOST_RESULTS]]
    rows = [row for row in (_row(one, place) for place, one in enumerate(results)) if row is not None]
    listed = _listed(config, ranks)
    found, unusable = _operation(arguments, source, operation, rows, listed.members if listed.whole else None)
    members = Group(len(ranks) or None)
    if found is not None and rows:
        members = group(listed, found, rows)
        unusable = members.contradiction or None
    odd = unsound(rows, found)
    if any("cpu_time" in _mapping(one.get("out_of_place")) for one in results):
        unusable = CPU_TIME
    elif odd is not None:
        unusable = f"result {odd[0].line} of {odd[0].size} bytes: {odd[1]}"
    checked = number(config.get("validation")) != 0
    graph = (number(config.get("graph")) or 0) > 0
    measured: list[Measurement] = []
    if found is not None and unusable is None:
        for one in results:
            measured += _measurements(one, found, graph=graph, checked=checked)
    state, reason = ending(_facts(document, parsed.damage, config, rows, measured, unusable, members))
    return BenchmarkRun(
        source=source,
        tool=TOOL,
        tool_version=None,
        nccl_version=nccl_version(str(document.get("nccl_version"))),
        started_at=_time(document.get("start_time")),
        state=state,
        reason=reason,
        ranks=ranks,
        measurements=tuple(measured),
        environment=kept(_pairs(document.get("env"))),
        environment_whole=bool(_list(document.get("env"))),
        command=arguments,
        settings=kept_settings(_settings(config), rows),
        rank_count=members.ranks if members.ranks != len(ranks) else None,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _float(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if abs(value) < 1e300 else math.nan
    return math.nan


def _or_none(value: object) -> float | None:
    found = _float(value)
    return found if math.isfinite(found) else None


def _true(value: object) -> bool:
    return value is True or value == "true"


def _time(value: object) -> float | None:
    """Unix seconds where a zone is said; versions 1 to 3 write local time without one, which may be any."""
    stamp = iso(value) if isinstance(value, str) else None
    return stamp.unix_seconds if stamp is not None else None


def _arguments(value: object) -> tuple[str, ...]:
    words = [word for word in _list(value)[:MOST_ARGUMENTS] if isinstance(word, str) and word.isprintable()]
    return tuple("***" if looks_secret(word) else word for word in words)


def _pairs(value: object) -> list[tuple[str, str]]:
    words = [word.partition("=") for word in _list(value) if isinstance(word, str)]
    return [(name, text) for name, equals, text in words if equals]


def _ranks(config: Mapping[str, Any]) -> tuple[BenchmarkRank, ...]:
    """Every rank: the listed first one of each process, and those that the tool numbers on from it."""
    each = max(1, (number(config.get("nthreads")) or 1) * (number(config.get("ngpus")) or 1))
    found: dict[int, BenchmarkRank] = {}
    for raw in _list(config.get("devices")):
        device = _mapping(raw)
        first, index, pid = (number(device.get(name)) for name in ("rank", "device", "pid"))
        if first is None or index is None or each * len(found) > MOST_RANKS:
            continue
        host = str(device.get("hostname") or "").strip()[:255]
        bus_id = str(device.get("device_hex") or "").strip().lower()
        model = str(device.get("device_info") or "").strip()[:100] or None
        found[first] = BenchmarkRank(first, host, pid, index, bus_id if _BUS_ID.fullmatch(bus_id) else None, model)
        for further in range(1, min(each, MOST_RANKS)):
            found.setdefault(first + further, BenchmarkRank(first + further, host, pid, index + further, None, None))
    return tuple(found[rank] for rank in sorted(found))


def _listed(config: Mapping[str, Any], ranks: tuple[BenchmarkRank, ...]) -> Listed:
    """The list of ranks; a process names its first one, and those of a group stand for all of their process."""
    each = max(1, (number(config.get("nthreads")) or 1) * (number(config.get("ngpus")) or 1))
    groups = [number(_mapping(one).get("group")) or 0 for one in _list(config.get("devices"))]
    several = len(set(groups)) > 1
    members = groups.count(min(groups)) * each if several else len(ranks)
    return Listed(frozenset(one.rank for one in ranks), members, max(len(set(groups)), 1), each)


def _settings(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    said = [(name, number(config.get(key))) for name, key in _KEPT]
    blocking = [("blocking", "1")] if _true(config.get("blocking_collectives")) else []
    return [(name, str(value)) for name, value in said if value is not None] + blocking


def _row(result: Mapping[str, Any], place: int) -> Row | None:
    size, count = number(result.get("size")), number(result.get("count"))
    if size is None or size < 0 or (count is not None and count < 0):
        return None
    out, inside = (_placement(_mapping(result.get(name))) for name in ("out_of_place", "in_place"))
    root = str(result.get("root") or "").strip()
    return Row(
        place,
        size,
        count or 0,
        str(result.get("type") or ""),
        str(result["redop"]) if isinstance(result.get("redop"), str) else None,
        int(root) if re.fullmatch(r"-?\d{1,9}", root) else None,
        out,
        inside,
        cut=out is None and inside is None,
    )


def _placement(half: Mapping[str, Any]) -> Placement | None:
    if not half:
        return None
    time = half.get("time", half.get("cpu_time"))
    return Placement(
        _float(time), _float(half.get("alg_bw")), _float(half.get("bus_bw")), _float(half.get("nwrong")), None
    )


def _operation(
    arguments: tuple[str, ...], source: str, given: Operation | None, rows: list[Row], ranks: int | None
) -> tuple[Operation | None, str | None]:
    if arguments and "_perf" in arguments[0]:
        said = of_program(arguments[0])
        if said is None:
            return None, f"{arguments[0]} measures an operation whose results are not compared"
        if said not in possible(rows, None, None, claimed=True):
            return None, contradicted(f"it says that it is {arguments[0]}", possible(rows, None, ranks))
        return said, None
    can_be = possible(rows, None, ranks)
    for said in (given, of_name(source)):
        if said is not None and said in can_be:
            return said, None
    if len(can_be) == 1:
        return next(iter(can_be)), None
    if not rows:
        return None, None
    return None, "neither args nor the file's name says which operation was measured; say it with --operation"


def _measurements(result: Mapping[str, Any], operation: Operation, *, graph: bool, checked: bool) -> list[Measurement]:
    size = number(result.get("size"))
    if size is None or size < 0:
        return []
    found: list[Measurement] = []
    for in_place, name in ((False, "out_of_place"), (True, "in_place")):
        half = _placement(_mapping(result.get(name)))
        if half is None or not size:
            continue
        timing = _mapping(result.get(f"{name}_per_iter"))
        times = tuple(value for value in map(_float, _list(timing.get("times_us"))[:MOST_ITERATIONS]) if value > 0)
        found.append(
            Measurement(
                Cell(operation, size, str(result.get("type") or ""), in_place, graph),
                half.time_us,
                half.algbw,
                half.busbw,
                int(half.wrong) if checked and math.isfinite(half.wrong) else None,
                _spread(timing) if timing else None,
                times,
                _ranks_us(timing, len(times)),
            )
        )
    return found


def _spread(timing: Mapping[str, Any]) -> Spread:
    least, most, p50, p99, cv = (
        _or_none(timing.get(name)) for name in ("min_us", "max_us", "p50_us", "p99_us", "cv_pct")
    )
    return Spread(least, most, p50, p99, cv)


def _ranks_us(timing: Mapping[str, Any], iterations: int) -> tuple[float, ...]:
    """Per process its mean time of an iteration: `per_process_max_times_us` has a row a process."""
    rows = [[_float(value) for value in _list(row)] for row in _list(timing.get("per_process_max_times_us"))]
    if not rows or any(len(row) != iterations or not all(math.isfinite(value) for value in row) for row in rows):
        return ()
    return tuple(fmean(row) for row in rows if row)


def _facts(
    document: Mapping[str, Any],
    damage: str | None,
    config: Mapping[str, Any],
    rows: list[Row],
    measured: list[Measurement],
    unusable: str | None,
    members: Group,
) -> Facts:
    gaps = [members.gap] if members.gap else []
    if damage is not None:
        gaps.append(f"the file is cut or damaged ({damage}); the {len(rows)} results before that were read")
    least, most = number(config.get("minimum_bytes")), number(config.get("maximum_bytes"))
    factor, step = number(config.get("step_factor")), number(config.get("step_bytes"))
    if least is not None and most is not None and (factor or step or least == most):
        gaps += missing(rows, Series(least, most, factor, step), members.ranks)
    elif rows:
        gaps.append(NO_SETTINGS)
    results = _list(document.get("results"))
    if len(results) > MOST_RESULTS:
        gaps.append(f"it has {len(results)} results, and the first {MOST_RESULTS} were read")
    elif len(rows) < len(results) or any(row.cut for row in rows):
        gaps.append("a result has no size, no count or no time that makes sense")
    bounds = _mapping(document.get("out_of_bounds"))
    count = number(bounds.get("count"))
    average = _mapping(document.get("average_bus_bandwidth") or document.get("average_bus_bandwidith"))
    if rows and unusable is None and average:
        said = average_gap(_float(average.get("bandwidth")), rows)
        gaps += [said] if said else []
    failures = tuple(
        Failure(Grade.HINT, " ".join(one.split())[:200])
        for one in _list(document.get("errors"))
        if isinstance(one, str) and one.strip()
    )
    notes = [members.note] if members.note else []
    if measured and all(one.wrong is None for one in measured):
        notes.append("results were not checked for correctness")
    if average.get("okay") in ("false", False):
        notes.append("its average is below 90 % of NCCL_TESTS_MIN_BW")
    return Facts(
        rows=len(rows),
        unusable=unusable,
        gaps=tuple(gaps),
        bounds=(count, not _true(bounds.get("okay"))) if count is not None else None,
        wrong=sum(one.wrong or 0 for one in measured),
        average=bool(average),
        concluded="end_time" in document,
        failures=failures,
        usage=False,
        notes=tuple(notes),
    )
