"""What was heard of the ranks, and how they ended -> the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.bench.builtin.heard import Heard, Plain, RankHeard
from rankmuster.bench.nccl_view import view_of_log
from rankmuster.model.benchmark import BenchmarkRank, BenchmarkRun, Cell, Measurement, Operation, RunState, Spread
from rankmuster.model.ranks_text import ranks_text

TOOL = "built-in"
TOOL_VERSION = "1"
"""Of the measuring method: results of another version are not comparable."""

PROBE_SLOW = 1.15
"""A GPU that needs so many times as long for work of its own as the fastest of its model here. Healthy GPUs of one node
differ by a few percent (vendors warn at 3.5 % and fail at 7 %, facts of Azure's checks); another process's kernels on
it cost a third or more."""

MOST_NAMED = 8
MOST_WARNINGS = 3


@dataclass(frozen=True, slots=True)
class Ended:
    """`limit_s`: the time limit, where it was what ended the run. `dead`: rank -> how its process ended, with its last
    words. `stopped`: rank -> what /proc said of it while it did not come. `launcher`: what came of the launcher, where
    that was not well. `silent_nodes`: nodes of which no rank was heard. `killed`: of `dead`, those by a
    signal that is no after-effect of another rank's end."""

    limit_s: float | None = None
    dead: Mapping[int, str] = field(default_factory=dict)
    stopped: Mapping[int, str] = field(default_factory=dict)
    launcher: str = ""
    silent_nodes: tuple[str, ...] = ()
    killed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Run:
    """What the run's parent knows of it."""

    source: str
    ranks: int
    started_at: float | None
    environment: tuple[tuple[str, str], ...]
    command: tuple[str, ...]


def conclude(
    heard: Heard, ended: Ended, run: Run, *, chosen: Heard | None = None, contention: str = "", contended: bool = False
) -> BenchmarkRun:
    """`chosen`: what the ranks of the start for NCCL's choices said. `contention`: in words, empty where there is
    nothing to say of it."""
    rows = [row for row in (_measurement(row, run.ranks) for row in heard.rows) if row is not None]
    state, reason = _state(heard, ended, run, rows, contended, contention)
    notes = [reason, *heard.left_out, *slow_gpus(heard)]
    if contention and contention not in reason:
        notes.append(contention)
    notes += _warnings(heard)
    log = _log(heard) + (_log(chosen) if chosen is not None else b"")
    view = view_of_log(log, "the ranks' NCCL logs")
    first = heard.ranks.get(0, RankHeard())
    return BenchmarkRun(
        source=run.source,
        tool=TOOL,
        tool_version=f"{TOOL_VERSION}+torch{first.torch}" if first.torch else TOOL_VERSION,
        nccl_version=_text(first.device.get("nccl")) or view.nccl_version,
        started_at=run.started_at,
        state=state,
        reason="; ".join(note for note in notes if note),
        ranks=tuple(_rank(number, rank) for number, rank in sorted(heard.ranks.items()) if rank.host is not None),
        measurements=tuple(rows),
        choices=view.choices,
        environment=run.environment,
        transports=view.transports,
        channels=view.channels,
        command=run.command,
    )


def _state(
    heard: Heard, ended: Ended, run: Run, rows: list[Measurement], contended: bool, contention: str
) -> tuple[RunState, str]:
    if ended.silent_nodes:
        nodes = ", ".join(ended.silent_nodes)
        state = RunState.HUNG if ended.limit_s is not None else RunState.ERROR
        limit = f" within {ended.limit_s:g} s" if ended.limit_s is not None else ""
        return state, _joined(f"no rank of {nodes} started{limit}", ended.launcher)
    if ended.limit_s is not None:
        return RunState.HUNG, _joined(_hung(heard, ended, run.ranks), _failures(heard, ended))
    failed = _failures(heard, ended)
    if failed:
        silent = _unfinished(heard, run.ranks) if ended.launcher else ""
        return RunState.ERROR, _joined(silent, failed, ended.launcher)
    if ended.launcher:
        return RunState.ERROR, _joined(_unfinished(heard, run.ranks), ended.launcher)
    if heard.cells is None or len(rows) < len(heard.cells) or not _all_done(heard, run.ranks):
        planned = "an unknown number" if heard.cells is None else str(len(heard.cells))
        what = f"ended after {len(rows)} of {planned} measurements, without saying why"
        return RunState.INCOMPLETE, what
    if not rows:
        return RunState.INCOMPLETE, "nothing of the profile can be measured here"
    wrong = [row for row in rows if row.wrong]
    if wrong:
        named = ", ".join(
            f"{row.cell.operation.value} of {row.cell.size_bytes} bytes ({row.wrong})" for row in wrong[:3]
        )
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        return RunState.WRONG, f"wrong elements in {named}{more}"
    if contended:
        return RunState.CONTENDED, contention
    return RunState.COMPLETE, ""


def _hung(heard: Heard, ended: Ended, ranks: int) -> str:
    """Who did not come, and where the others wait for them."""
    said = f"did not end within {ended.limit_s:g} s"
    if not heard.ranks:
        return f"{said}; no rank has started"
    known = {number: heard.ranks.get(number, RankHeard()) for number in range(ranks)}
    parts = [f"{said}"]
    absent = [number for number, rank in known.items() if rank.host is None]
    if absent:
        parts.append(f"{_ranks(absent)} not started yet")
    there = {number: rank for number, rank in known.items() if rank.host is not None and not rank.done}
    furthest = max((rank.step for rank in there.values()), default=0)
    behind = [number for number, rank in there.items() if rank.step < furthest]
    waiting = [number for number in there if number not in behind]
    for number in behind[:MOST_NAMED]:
        parts.append(f"rank {number} ({there[number].host}) did not come: it is in {heard.place(there[number])}")
    if waiting:
        place = heard.place(there[waiting[0]])
        if behind or absent:
            parts.append(f"{_ranks(waiting)} waiting in {place}")
        elif not ended.stopped and not ended.dead:
            parts.append(f"all ranks are in {place}, so that it cannot be told who holds up whom")
        else:
            parts.append(f"in {place}")
    parts += [f"rank {number}'s process {what}" for number, what in sorted(ended.stopped.items())]
    return "; ".join(parts)


def _failures(heard: Heard, ended: Ended) -> str:
    """Who was killed, then the failures in their order: those after the first are often only its consequence."""
    parts = [_died(heard, ended, number) for number in sorted(ended.killed)]
    for number in heard.failures:
        rank = heard.ranks[number]
        parts.append(f"rank {number} ({rank.host}) failed in {heard.place(rank)}: {rank.failed}")
    others = sorted(set(ended.dead) - ended.killed - set(heard.failures))
    parts += [_died(heard, ended, number) for number in others]
    return "; ".join(parts[:MOST_NAMED])


def _died(heard: Heard, ended: Ended, number: int) -> str:
    rank = heard.ranks.get(number, RankHeard())
    return f"rank {number} {ended.dead[number]}" + (f" in {heard.place(rank)}" if rank.host else "")


def _unfinished(heard: Heard, ranks: int) -> str:
    """Where ranks that did not come to the end were heard of last."""
    parts: list[str] = []
    for number in range(ranks):
        rank = heard.ranks.get(number, RankHeard())
        if not rank.done and rank.failed is None and len(parts) < MOST_NAMED:
            parts.append(f"rank {number} ({rank.host or 'host unknown'}) in {heard.place(rank)}")
    return f"without a last word: {'; '.join(parts)}" if parts else ""


def slow_gpus(heard: Heard) -> list[str]:
    """GPUs whose own work takes long, in words: then a low bandwidth is the GPU's, not the links'."""
    found = []
    for key, name in (("matmul_us", "matrix multiplications"), ("copy_us", "copies in its memory")):
        by_model: dict[str, dict[int, float]] = {}
        for number, rank in heard.ranks.items():
            value = rank.probe.get(key)
            if isinstance(value, (int, float)) and value > 0:
                by_model.setdefault(str(rank.device.get("model")), {})[number] = float(value)
        for times in by_model.values():
            fastest = min(times.values())
            for number, value in sorted(times.items()):
                if value > PROBE_SLOW * fastest:
                    device = heard.ranks[number].device.get("device")
                    found.append(
                        f"the GPU of rank {number} (device {device}) is slow by itself: {name} take {value:.0f} us, "
                        f"{value / fastest:.2f} times the fastest GPU's"
                    )
    return found


def _measurement(row: Plain, ranks: int) -> Measurement | None:
    """None for a row that cannot be one."""
    try:
        cell = Cell(
            Operation(row["operation"]), int(row["size"]), str(row["dtype"]), bool(row["in_place"]), bool(row["graph"])
        )
        time_us, wrong, moved = float(row["time_us"]), int(row["wrong"]), int(row["moved"])
        each = tuple(float(value) for value in row["iterations_us"])
        of_ranks = tuple(float(value) for value in row["ranks_us"])
    except (KeyError, TypeError, ValueError):
        return None
    if not time_us > 0:
        return None
    algbw = moved / time_us / 1000  # of the bytes that ranks share evenly; the cell has the size that was asked for
    busbw = algbw * cell.operation.bus_factor(ranks)
    return Measurement(cell, time_us, algbw, busbw, wrong, spread(each), each, of_ranks)


def spread(values: tuple[float, ...]) -> Spread | None:
    """Nearest-rank percentiles, and the coefficient of variation of the population, as nccl-tests' -I gives them."""
    if not values:
        return None
    ordered, count = sorted(values), len(values)
    mean = sum(ordered) / count
    variance = sum((value - mean) ** 2 for value in ordered) / count
    return Spread(
        min_us=ordered[0],
        max_us=ordered[-1],
        p50_us=ordered[(count - 1) // 2],
        p99_us=ordered[-(-99 * count // 100) - 1],
        cv_percent=round(100 * variance**0.5 / mean, 3) if mean > 0 else None,
    )


def _rank(number: int, rank: RankHeard) -> BenchmarkRank:
    device = rank.device.get("device")
    return BenchmarkRank(
        rank=number,
        host=rank.host or "",
        pid=rank.pid,
        device=device if isinstance(device, int) else 0,
        bus_id=_text(rank.device.get("bus_id")),
        gpu_model=_text(rank.device.get("model")),
        matmul_us=_number(rank.probe.get("matmul_us")),
        copy_us=_number(rank.probe.get("copy_us")),
    )


def _log(heard: Heard) -> bytes:
    return "".join(f"{line}\n" for rank in heard.ranks.values() for line in rank.lines).encode()


def _warnings(heard: Heard) -> list[str]:
    """NCCL's own, each once."""
    lines = [line for rank in heard.ranks.values() for line in rank.lines if "NCCL WARN " in line]
    texts = dict.fromkeys(line.partition("NCCL WARN ")[2].strip()[:200] for line in lines)
    return [f"NCCL warned: {text}" for text in list(texts)[:MOST_WARNINGS]]


def _all_done(heard: Heard, ranks: int) -> bool:
    return all(heard.ranks.get(number, RankHeard()).done for number in range(ranks))


def _ranks(numbers: list[int]) -> str:
    return f"{ranks_text(numbers)} {'is' if len(numbers) == 1 else 'are'}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
