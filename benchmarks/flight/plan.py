"""Every rank's program of calls with the fault planted in it: what the player plays and the truth is read from."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np
from benchmarks.flight import programs
from benchmarks.flight.calls import Call, Pg, Way
from benchmarks.flight.edits import Edit, edits_for
from benchmarks.flight.layout import Layout
from benchmarks.flight.settings import SLOW_KINDS, FaultKind, Settings
from numpy.typing import NDArray

AFTER_FAULT = 3
"""Steps of program behind the faulty one, so that hosts still have something to enqueue when they stop."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One program. `calls`: indexes into the plan's calls. `before`: numbers given before it, per process group."""

    calls: NDArray[np.int32]
    seq_before: NDArray[np.int64]  # (pgs,)
    p2p_before: NDArray[np.int64]
    op_before: NDArray[np.int64]
    entries_before: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """`program_of`: shape (ranks,), index into `programs`. Faults by rank -> index of the call in its program.

    `at`: where the fault is, (rank, index), None without one. `group`: the kind of group that the call is of.
    """

    layout: Layout
    calls: tuple[Call, ...]
    programs: tuple[Program, ...]
    program_of: NDArray[np.int64]
    at: tuple[int, int] | None = None
    group: Pg = Pg.WORLD
    stops: dict[int, int] = field(default_factory=dict)
    stalls: dict[int, int] = field(default_factory=dict)
    breaks: dict[int, int] = field(default_factory=dict)
    severed: tuple[int, int] | None = None  # the call of which nobody leaves
    slow_since: int = 0


def make(job: Settings, layout: Layout) -> Plan:
    """The plan of a job.

    Raises ValueError where the layout has no place for the fault (no such group, no such call).
    """
    stages = [programs.step_of(job, stage) for stage in range(job.pp)]
    calls = tuple(dict.fromkeys(call for step in stages for call in step))
    index = {call: number for number, call in enumerate(calls)}
    entries = [sum(call.entries for call in step) for step in stages]
    steps = job.steps or _steps(job, min(entries), max(entries))
    before = _steps_before(job, steps, min(entries))
    whole = tuple(_program(step, index, steps, before) for step in stages)
    plan = Plan(layout, calls, whole, layout.stage.copy())
    if job.fault.kind is FaultKind.NONE:
        return plan
    if job.fault.kind in SLOW_KINDS:
        rank = _drawn_rank(job)
        return _replaced(plan, at=(rank, 0), slow_since=int(job.fault.since * len(whole[0].calls)))
    return _with_fault(job, plan, stages, steps)


def _steps(job: Settings, fewest: int, most: int) -> int:
    if job.wrapped:
        return -(-job.entries // fewest) + AFTER_FAULT + 2
    return max(AFTER_FAULT + 2, job.entries // most // 2)


def _steps_before(job: Settings, steps: int, fewest: int) -> int:
    """Steps that are counted and not played; they overwrote nothing of what is played, and have left the buffer."""
    if not job.wrapped:
        return 0
    random_steps = random.Random(f"before {job.seed}").randrange(40, 400)
    return random_steps + -(-job.entries // fewest) + steps


def _program(step: list[Call], index: dict[Call, int], steps: int, before: int) -> Program:
    seq, p2p, ops = (np.zeros(len(Pg), np.int64) for _ in range(3))
    for call in step:
        if call.way is Way.NONE:
            seq[call.pg] += 1 + call.gap
        else:
            p2p[call.pg] += 1
        ops[call.pg] += len(call.parts) + call.gap
    entries = sum(call.entries for call in step)
    played = np.tile(np.array([index[call] for call in step], np.int32), steps)
    return Program(played, seq * before, p2p * before, ops * before, entries * before)


def _drawn_rank(job: Settings) -> int:
    if job.fault.rank is not None:
        return job.fault.rank
    return random.Random(f"rank {job.seed}").randrange(job.ranks)


def _with_fault(job: Settings, plan: Plan, stages: list[list[Call]], steps: int) -> Plan:
    """Plants it into one step of one rank: the last but AFTER_FAULT, at a call drawn among those that suit."""
    draw = random.Random(f"fault {job.seed}")
    ranks = [job.fault.rank] if job.fault.rank is not None else draw.sample(range(job.ranks), job.ranks)
    for rank in ranks:
        step = stages[int(plan.layout.stage[rank])]
        suited = edits_for(job, step)
        if suited:
            return _planted(plan, rank, (steps - 1 - AFTER_FAULT) * len(step), draw.choice(suited), job)
    raise ValueError(
        f"no rank of this layout has a place for the fault {job.fault.kind.value} in {job.fault.where.value}"
    )


def _planted(plan: Plan, rank: int, first: int, edit: Edit, job: Settings) -> Plan:
    at = (rank, first + edit.place)
    kind = job.fault.kind
    marks = {
        FaultKind.HOST_STOP: "stops",
        FaultKind.DEAD: "stops",
        FaultKind.GPU_STALL: "stalls",
        FaultKind.NO_FINISH: "breaks",
    }
    if kind in marks:
        return _replaced(plan, at=at, group=edit.group, **{marks[kind]: {rank: at[1]}})
    if kind is FaultKind.TRANSPORT:
        return _replaced(plan, at=at, group=edit.group, severed=at)
    own = plan.programs[int(plan.program_of[rank])]
    calls = plan.calls + tuple(call for call in edit.instead if call not in plan.calls)
    new = np.array([calls.index(call) for call in edit.instead], np.int32)
    changed = np.concatenate([own.calls[: at[1]], new, own.calls[at[1] + edit.taken :]]).astype(np.int32)
    program = Program(changed, own.seq_before, own.p2p_before, own.op_before, own.entries_before)
    program_of = plan.program_of.copy()
    program_of[rank] = len(plan.programs)
    return _replaced(
        plan, calls=calls, programs=(*plan.programs, program), program_of=program_of, at=at, group=edit.group
    )


def _replaced(plan: Plan, **changes: object) -> Plan:
    return replace(plan, **changes)  # type: ignore[arg-type]
