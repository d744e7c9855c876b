"""What was heard of the ranks, and how they ended -> the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.bench.builtin.heard import Heard, RankHeard
from rankmuster.bench.builtin.rows import measurement_of
from rankmuster.bench.builtin.slow_gpus import slow_gpus
from rankmuster.bench.nccl_view import view_of_log
from rankmuster.model.benchmark import (
    AlgorithmChoice,
    BenchmarkRank,
    BenchmarkRun,
    Measurement,
    Operation,
    RunState,
)
from rankmuster.model.ranks_text import ranks_text

TOOL = "built-in"
TOOL_VERSION = "1"
"""Of the measuring method: results of another version are not comparable."""

BARRIER_BYTES = 4

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
    rows = [row for row in (measurement_of(row, run.ranks) for row in heard.rows) if row is not None]
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
        choices=tuple(one for one in view.choices if not _of_the_barrier(one, rows)),
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


def _of_the_barrier(choice: AlgorithmChoice, rows: list[Measurement]) -> bool:
    """The ranks meet in an all_reduce of one number, which is not of the profile."""
    if (choice.operation, choice.size_bytes) != (Operation.ALL_REDUCE.value, BARRIER_BYTES):
        return False
    return not any((row.cell.operation, row.cell.size_bytes) == (Operation.ALL_REDUCE, BARRIER_BYTES) for row in rows)


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
