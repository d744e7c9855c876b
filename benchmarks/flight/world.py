"""A job, played once, from which any rank's dump can be had at any time: dumps are made one by one, never held."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from benchmarks.flight import entry, layout, numbering, plan, play, recorder, truth, write_json, write_pickle
from benchmarks.flight.settings import SLOW_KINDS, START_NS, FaultKind, Form, Look, Settings
from numpy.typing import NDArray

STALE_DAYS = 2
"""How much older an earlier run's dump is."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """`looks_us`: when each rank's dump is taken, microseconds since the start, shape (ranks,)."""

    job: Settings
    plan: plan.Plan
    played: play.Played
    numbered: tuple[numbering.Numbered, ...]
    looks_us: NDArray[np.int64]
    truth: truth.Truth

    @property
    def ranks_with_dump(self) -> list[int]:
        gone = {*self.truth.missing}
        if self.job.fault.kind is FaultKind.DEAD:
            gone.update(self.truth.culprits)
        return [rank for rank in range(self.job.ranks) if rank not in gone]

    def look_time(self, rank: int) -> float:
        """Unix seconds at which the rank's dump was taken, by a clock that is right."""
        time = START_NS / 1e9 + float(self.looks_us[rank]) / 1e6
        return time - STALE_DAYS * 86_400 if rank in self.truth.stale else time

    def dump(self, rank: int) -> bytes:
        """The rank's dump."""
        job, own = self.job, self.numbered[int(self.plan.program_of[rank])]
        held = recorder.hold(job, own, self.plan.calls, self.played, rank, int(self.looks_us[rank]))
        if rank in self.truth.stale:
            held = _days_earlier(held)
        kinds = [entry.kind_of(job, self.plan.layout, self.plan.calls[call], part, rank) for call, part in own.kinds]
        write = write_json.write if job.form is Form.JSON else write_pickle.write
        written = write(
            job.version,
            entry.pg_config(job, self.plan.layout, rank),
            entry.lib_version(job),
            entry.statuses(self.plan.layout, rank, held.status),
            kinds,
            held,
        )
        if rank in self.truth.damaged:
            return written[: random.Random(f"cut {job.seed} {rank}").randrange(len(written) // 2, len(written) - 200)]
        return written

    def files(self, ranks: list[int] | None = None) -> Iterator[tuple[str, bytes]]:
        """(name in the bundle, bytes) of the dumps of `ranks`, or of all, one at a time."""
        for rank in self.ranks_with_dump:
            if ranks is None or rank in ranks:
                yield file_name(rank), self.dump(rank)

    def manifest(self) -> dict[str, object] | None:
        """The bundle's manifest, None where nobody noted when the dumps were taken."""
        if not self.job.look_times:
            return None
        looks = {file_name(rank): self.look_time(rank) for rank in self.ranks_with_dump}
        return {"schema": "rankmuster.bundle/1", "look_times": looks}


def file_name(rank: int) -> str:
    """Where a rank's dump lies in the bundle."""
    return f"flight/nccl_trace_rank_{rank}"


def make(job: Settings) -> World:
    """Plays a job.

    Raises ValueError where the layout has no place for the fault, or the fault stops nobody.
    """
    if job.fault.kind is FaultKind.NONE and job.look is Look.HUNG:
        raise ValueError("a job without a fault does not stand still; look at it live or idle")
    if job.fault.kind in SLOW_KINDS and job.look is Look.HUNG:
        raise ValueError("a slow rank does not stop its job; look at it live")
    own_layout = layout.build(job)
    own_plan = plan.make(job, own_layout)
    played = play.play(job, own_plan)
    _stands_as_meant(job, played)
    messages = job.has_events or job.backend.value == "nccl2"
    numbered = tuple(numbering.number(one, own_plan.calls, messages=messages) for one in own_plan.programs)
    told = truth.of(job, own_plan, *_unlucky(job, own_plan))
    return World(job, own_plan, played, numbered, _looks(job, played, told.older), told)


def _stands_as_meant(job: Settings, played: play.Played) -> None:
    every = played.lengths - 1
    ended = played.finished[np.arange(len(every)), every] != play.NEVER
    if job.look is Look.HUNG and ended.any():
        raise ValueError(f"the fault {job.fault.kind.value} did not stop the ranks {np.nonzero(ended)[0][:8].tolist()}")
    if job.look is not Look.HUNG and not ended.all():
        raise ValueError(f"a job that stands still cannot be looked at as {job.look.value}")


def _looks(job: Settings, played: play.Played, older: tuple[int, ...]) -> NDArray[np.int64]:
    draw = np.random.default_rng([job.seed, 3])
    happened = [table[table != play.NEVER] for table in (played.enqueued, played.finished)]
    if job.look is Look.HUNG:
        base = max(int(times.max()) for times in happened if len(times)) + job.timeout_ms * 1000
    elif job.look is Look.IDLE:
        base = max(int(times.max()) for times in happened) + 60_000_000
    else:
        # Of those whose hosts are done with their part first, no one is through.
        own = np.arange(len(played.lengths))
        end = int(played.enqueued[own, played.lengths - 1].min())
        base = int(end * draw.uniform(0.72, 0.9))
    spread = min(job.look_spread_s * 1e6, base * 0.6)
    looks = base - draw.integers(0, max(1, int(spread)), job.ranks)
    for rank in older:
        # Somebody asked for a dump while all was well, and this rank did not write another.
        looks[rank] = int(
            int(played.enqueued[rank][played.enqueued[rank] != play.NEVER].max()) * draw.uniform(0.4, 0.95)
        )
    return looks


def _unlucky(job: Settings, own_plan: plan.Plan) -> tuple[tuple[int, ...], ...]:
    """The innocent ranks whose dumps are missing, stale, damaged, older."""
    guilty = own_plan.at[0] if own_plan.at is not None else -1
    innocent = [rank for rank in range(job.ranks) if rank != guilty]
    random.Random(f"unlucky {job.seed}").shuffle(innocent)
    counts = (job.missing, job.stale, job.damaged, job.older)
    if sum(counts) > len(innocent):
        raise ValueError(f"{sum(counts)} innocent ranks are to have no good dump, and there are {len(innocent)}")
    found = []
    for count in counts:
        found.append(tuple(sorted(innocent[:count])))
        del innocent[:count]
    return tuple(found)


def _days_earlier(held: recorder.Held) -> recorder.Held:
    """The same program in an earlier run: all stamps are older; numbers look alike, as they do in life."""
    earlier = STALE_DAYS * 86_400 * 1_000_000_000

    def shifted(stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        moved: NDArray[np.int64] = np.where(stamps > 0, stamps - earlier, 0)
        return moved

    return replace(
        held,
        created_ns=shifted(held.created_ns),
        started_ns=shifted(held.started_ns),
        completed_ns=shifted(held.completed_ns),
    )
