"""Plays all programs: when each host enqueues each call, when its GPU comes to it, and when it ends.

The rules are NCCL's as one stream sees them. A GPU runs its calls in order. A collective ends when every member has it
at the head of its stream; one with a root, once the root has come, and the root at once. A host is at most `ahead`
calls before its GPU. Calls that do not match (another operation, size, type or direction) do not end, but for the few
that a fault tolerates. A rank meets its peers by number within the channel, whatever the number means to them.

All ranks that can go on go on together in one round, so that a round costs a few array operations and not a loop over
ranks; the times are a fixed point and do not depend on the rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from benchmarks.flight.calls import Slot, Way
from benchmarks.flight.plan import Plan
from benchmarks.flight.settings import FaultKind, Settings
from numpy.typing import NDArray

Micros = NDArray[np.int32]

NEVER = np.int32(2**31 - 1)
_KERNEL_GAP_US = 6
_JITTER_US = 40


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """Microseconds since the start, shape (ranks, longest program); NEVER: it has not happened and will not."""

    enqueued: Micros
    started: Micros
    finished: Micros
    lengths: NDArray[np.int64]  # (ranks,): calls of each rank's program


def play(job: Settings, plan: Plan) -> Played:
    """Runs until nobody can go on."""
    return _Player(job, plan).run()


class _Player:
    def __init__(self, job: Settings, plan: Plan) -> None:
        self.job, self.plan = job, plan
        ranks = job.ranks
        width = max(len(program.calls) for program in plan.programs)
        self.lengths = np.array([len(p.calls) for p in plan.programs], np.int64)[plan.program_of]
        self.program = np.zeros((len(plan.programs), width + 1), np.int32)
        self.number = np.zeros((len(plan.programs), width + 1), np.int32)
        for row, program in enumerate(plan.programs):
            self.program[row, : len(program.calls)] = program.calls
            self.number[row, : len(program.calls)] = _numbers(program.calls, plan)
        self.enqueued, self.started, self.finished = (np.full((ranks, width), NEVER, np.int32) for _ in range(3))
        self.head = np.zeros(ranks, np.int64)
        self.ahead = np.full(ranks, job.ahead, np.int64)
        if job.ahead_differs:
            self.ahead = np.random.default_rng([job.seed, 5]).integers(1, job.ahead + 1, ranks)
        self.free = np.zeros(ranks, np.int32)  # when the GPU ends what it did
        self._calls()
        self._meetings()
        self._marks()

    def _calls(self) -> None:
        calls = self.plan.calls
        self.slot = np.array([call.slot for call in calls], np.int64)
        self.host_us = np.array([call.host_us for call in calls], np.int32)
        self.gpu_us = np.array([call.gpu_us for call in calls], np.int32)
        self.rooted = np.array([call.rooted for call in calls], bool)
        self.is_message = np.array([call.way is not Way.NONE for call in calls], bool)
        seen: dict[object, int] = {}
        kinds = [seen.setdefault(call.matches, len(seen)) for call in calls]
        self.kind = np.array(
            [2 * kind + (call.way is Way.SEND) for kind, call in zip(kinds, calls, strict=True)], np.int32
        )

    def _meetings(self) -> None:
        layout = self.plan.layout
        most = np.zeros(len(Slot), np.int64)
        for row, program in enumerate(self.plan.programs):
            own = self.slot[program.calls]
            for slot in Slot:
                numbers = self.number[row, : len(own)][own == slot]
                if len(numbers):
                    most[slot] = max(most[slot], int(numbers.max()) + 1)
        room = np.zeros(len(layout.sizes), np.int64)
        for slot in Slot:
            used = layout.channel[:, slot]
            np.maximum.at(room, used[used >= 0], most[slot])
        self.first = np.concatenate([np.zeros(1, np.int64), np.cumsum(room)])
        total = int(self.first[-1])
        self.latest = np.zeros(total, np.int32)
        self.count = np.zeros(total, np.int32)
        self.need = np.repeat(layout.sizes, room).astype(np.int32)
        self.seen = np.full(total, -1, np.int32)
        self.wrong = np.zeros(total, bool)
        self.ways = np.zeros(total, np.int8)  # sends less receives of a pair's meeting
        self.waiting = np.full(self.job.ranks, -1, np.int64)  # meeting at which the rank's GPU stands

    def _marks(self) -> None:
        plan, ranks = self.plan, self.job.ranks
        never = int(np.iinfo(np.int64).max)
        self.stop, self.stall, self.broken = (np.full(ranks, never, dtype=np.int64) for _ in range(3))
        for table, marks in ((self.stop, plan.stops), (self.stall, plan.stalls), (self.broken, plan.breaks)):
            for rank, index in marks.items():
                table[rank] = index
        self.tolerated = self.job.fault.tolerated
        if plan.severed is not None:
            rank, index = plan.severed
            self.wrong[self._meeting(np.array([rank]), np.array([index]))] = True
            self.tolerated = 0

    def _meeting(self, ranks: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = self.plan.program_of[ranks]
        channel = self.plan.layout.channel[ranks, self.slot[self.program[rows, index]]]
        meeting: NDArray[np.int64] = self.first[channel] + self.number[rows, index].astype(np.int64)
        return meeting

    def run(self) -> Played:
        everyone = np.arange(self.job.ranks)
        skew = np.int32(self.job.seed & 0xFFFF)
        self.enqueued[:, 0] = 1000 + _jitter(everyone, everyone * 0, skew) * 20
        for index in range(1, min(self.job.ahead, self.enqueued.shape[1])):
            may = everyone[self.ahead > index]
            self._enqueue(may, np.full(len(may), index), np.zeros(len(may), np.int32))
        self.enqueued[self.stop == 0, 0] = NEVER
        came = everyone
        while len(came):
            self._arrive(came)
            came = self._leave()
        return Played(self.enqueued, self.started, self.finished, self.lengths)

    def _enqueue(self, ranks: NDArray[np.int64], index: NDArray[np.int64], freed: Micros) -> None:
        fits = (index < self.lengths[ranks]) & (index < self.stop[ranks])
        ranks, index, freed = ranks[fits], index[fits], freed[fits]
        before = self.enqueued[ranks, index - 1]
        call = self.program[self.plan.program_of[ranks], index]
        cost = self.host_us[call] + _jitter(ranks, index, np.int32(self.job.seed & 0xFFFF))
        if self.job.fault.kind in (FaultKind.SLOW, FaultKind.SLOW_TAIL) and self.plan.at is not None:
            late = (ranks == self.plan.at[0]) & (index >= self.plan.slow_since)
            if self.job.fault.kind is FaultKind.SLOW_TAIL:
                late &= _jitter(ranks, index, np.int32(77)) < 4
            cost = cost + late * np.int32(self.job.fault.slow_us)
        known = (before != NEVER) & (freed != NEVER)
        time = np.maximum(before, freed).astype(np.int64) + cost
        self.enqueued[ranks, index] = np.where(known, time, NEVER)

    def _arrive(self, ranks: NDArray[np.int64]) -> None:
        """GPUs of `ranks` come to their next call, where there is one that is enqueued and nothing holds them."""
        index = self.head[ranks]
        inside = index < self.lengths[ranks]
        ranks, index = ranks[inside], index[inside]
        ready = (self.enqueued[ranks, index] != NEVER) & (self.stall[ranks] != index)
        ranks, index = ranks[ready], index[ready]
        start = np.maximum(self.enqueued[ranks, index], self.free[ranks] + _KERNEL_GAP_US)
        self.started[ranks, index] = start
        meeting = self._meeting(ranks, index)
        call = self.program[self.plan.program_of[ranks], index]
        root = self.plan.layout.root[self.plan.layout.channel[ranks, self.slot[call]]] == ranks
        leads = ~self.rooted[call] | root
        np.maximum.at(self.latest, meeting[leads], start[leads])
        # Whoever waits for a root needs nobody else.
        weight = np.where(self.rooted[call], np.where(root, self.need[meeting], 0), 1).astype(np.int32)
        np.add.at(self.count, meeting, weight)
        self._compare(meeting, call)
        self.waiting[ranks] = meeting

    def _compare(self, meeting: NDArray[np.int64], call: NDArray[np.int32]) -> None:
        kind = self.kind[call]
        fresh = self.seen[meeting] < 0
        self.seen[meeting[fresh]] = kind[fresh]  # of several that come at once, one stays
        expected = self.seen[meeting]
        # Two messages match as one is the other's reverse; which of a pair was noted first does not matter.
        differs = np.where(self.is_message[call], (kind ^ expected) > 1, kind != expected)
        self.wrong[meeting[differs]] = True
        messages = self.is_message[call]
        if messages.any():
            # Two sends, or two receives, of one pair never meet.
            np.add.at(self.ways, meeting[messages], np.where(kind[messages] & 1, 1, -1).astype(np.int8))
            full = messages & (self.count[meeting] >= 2) & (self.ways[meeting] != 0)
            self.wrong[meeting[full]] = True

    def _leave(self) -> NDArray[np.int64]:
        """Ends what has all that it needs; the ranks whose GPUs are free again."""
        ranks: NDArray[np.int64] = np.nonzero(self.waiting >= 0)[0]
        meeting = self.waiting[ranks]
        complete = self.count[meeting] >= self.need[meeting]
        if self.tolerated:
            for odd in np.unique(meeting[complete & self.wrong[meeting]])[:1]:
                # NCCL compares nothing: the group stops within the next few calls, not at the one that differs.
                self.wrong[odd] = False
                self.wrong[min(odd + self.tolerated, len(self.wrong) - 1)] = True
                self.tolerated = 0
        ends = complete & ~self.wrong[meeting] & (self.head[ranks] != self.broken[ranks])
        ranks, meeting = ranks[ends], meeting[ends]
        index: NDArray[np.int64] = self.head[ranks]
        call = self.program[self.plan.program_of[ranks], index]
        finish = np.maximum(self.latest[meeting], self.started[ranks, index]) + self.gpu_us[call]
        self.finished[ranks, index] = finish
        self.free[ranks] = finish
        self.waiting[ranks] = -1
        self.head[ranks] += 1
        self._enqueue(ranks, index + self.ahead[ranks], finish)
        return ranks


def _numbers(calls: NDArray[np.int32], plan: Plan) -> NDArray[np.int32]:
    """The how-maniest call of its channel each one is, from 0."""
    slots = np.array([call.slot for call in plan.calls], np.int64)[calls]
    numbers = np.zeros(len(calls), np.int32)
    for slot in Slot:
        of_slot = slots == slot
        numbers[of_slot] = np.arange(int(of_slot.sum()), dtype=np.int32)
    return numbers


def _jitter(ranks: NDArray[np.int64], index: NDArray[np.int64], seed: np.int32) -> Micros:
    """0 to 39 us, the same for the same rank, call and seed."""
    mixed = (ranks * 2_654_435_761 + index * 40_503 + int(seed) * 2_246_822_519) & 0xFFFFFFFF
    mixed ^= mixed >> 15
    mixed = (mixed * 2_246_822_519) & 0xFFFFFFFF
    mixed ^= mixed >> 13
    jitter: Micros = (mixed % _JITTER_US).astype(np.int32)
    return jitter
