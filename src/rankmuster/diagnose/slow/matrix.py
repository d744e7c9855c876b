"""One group's timed collectives as matrices: a row per rank, a column per number that all of them have finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.roll import RankRoll, RollTable
from rankmuster.model.flight import Flags, Floats, Ints
from rankmuster.model.job import Group

SPARSE = 64
"""Numbers between the first and the last per number that a rank has, from which they are no run with gaps (graph
captures leave small ones) but damage, and are not counted into an array of that length."""


LONGEST_MS = 1e9
"""Eleven days: what a dump says took longer, or less than nothing, is damage."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupMatrix:
    """`ranks`: those with a row. `absent`: members without any timed roll here. `apart`: members whose dumps reach over
    other numbers than most, so that a row of theirs would leave the others few columns.

    `numbers`: shape (columns,), ascending. `values`: shape (rows, columns): durations in ms, or, without timing, times
    of enqueueing in unix seconds of each rank's host. `created`: when the last rank enqueued it, unix seconds, shape
    (columns,). `signature`: of the first row, shape (columns,), index into the table's signatures. `alike`: whether all
    ranks passed the same, shape (columns,).
    """

    group: Group
    ranks: tuple[int, ...]
    absent: tuple[int, ...]
    apart: tuple[int, ...]
    numbers: Ints
    values: Floats
    created: Floats
    signature: Ints
    alike: Flags

    @property
    def whole(self) -> bool:
        """Whether every member has a row: else the one that all wait for may be among the missing."""
        return not self.absent and not self.apart

    def only(self, columns: Flags) -> GroupMatrix:
        """The same, of these columns alone."""
        if columns.all():
            return self
        return GroupMatrix(
            self.group,
            self.ranks,
            self.absent,
            self.apart,
            self.numbers[columns],
            self.values[:, columns],
            self.created[columns],
            self.signature[columns],
            self.alike[columns],
        )


def build(
    table: RollTable,
    group: Group,
    *,
    timed: bool = True,
    strict: bool = False,
    shifts: Mapping[int, float] | None = None,
) -> GroupMatrix | None:
    """The group's matrix over those of its members who have timed collectives; None where fewer than two have.

    `timed` False: over all enqueued collectives, with the times of enqueueing. `strict`: no row is left out for the
    sake of the others' columns, and a member without one is no group. `shifts`: rank -> seconds to add to its host's
    clock for `created`.
    """
    rolls = {rank: roll for rank in group.members if (roll := table.rolls.get((group.key, rank))) is not None}
    usable = {rank: _usable(roll, timed, strict) for rank, roll in rolls.items()}
    if strict and len(rolls) != len(group.members):
        return None
    if not strict:
        usable = {rank: numbers for rank, numbers in usable.items() if len(numbers)}
    if len(usable) < 2:
        return None
    kept = usable if strict else _together(usable)
    numbers = _common(list(kept.values()))
    ranks = tuple(kept)
    shape = (len(ranks), len(numbers))
    values, signatures = np.empty(shape), np.empty(shape, dtype=np.int32)
    created = np.full(len(numbers), -np.inf)
    for row, rank in enumerate(ranks):
        roll = rolls[rank]
        place = _positions(roll.seq, numbers)
        enqueued = roll.created[place]
        values[row] = roll.duration_ms[place] if timed else enqueued
        signatures[row] = roll.signature[place]
        np.maximum(created, enqueued + shifts[rank] if shifts and rank in shifts else enqueued, out=created)
    first = signatures[0].astype(np.int64)
    return GroupMatrix(
        group,
        ranks,
        absent=tuple(rank for rank in group.members if rank not in usable),
        apart=tuple(rank for rank in usable if rank not in kept),
        numbers=numbers,
        values=values,
        created=created,
        signature=first,
        alike=(signatures == signatures[0]).all(axis=0),
    )


def _usable(roll: RankRoll, timed: bool, strict: bool) -> Ints:
    if not timed:
        return roll.seq
    sound = np.isfinite(roll.duration_ms) if strict else (roll.duration_ms >= 0) & (roll.duration_ms <= LONGEST_MS)
    numbers: Ints = roll.seq[roll.finished & sound]
    return numbers


def _together(usable: Mapping[int, Ints]) -> dict[int, Ints]:
    """Ranks that have at least half of the numbers that more than half of the ranks have."""
    parts = list(usable.values())
    if all(len(part) == len(parts[0]) and part[0] == parts[0][0] and part[-1] == parts[0][-1] for part in parts):
        return dict(usable)
    numbers, counts = _counted(parts)
    majority = numbers[counts * 2 > len(parts)]
    if not len(majority):
        return dict(usable)
    kept = {
        rank: part
        for rank, part in usable.items()
        if 2 * len(np.intersect1d(part, majority, assume_unique=True)) >= len(majority)
    }
    return kept if len(kept) >= 2 else dict(usable)


def _common(parts: list[Ints]) -> Ints:
    numbers, counts = _counted(parts)
    common: Ints = numbers[counts == len(parts)]
    return common


def _counted(parts: list[Ints]) -> tuple[Ints, Ints]:
    """All numbers, ascending, and how many of `parts` hold each; a part holds each of its numbers once."""
    filled = [part for part in parts if len(part)]
    if not filled:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    low, high = min(int(part[0]) for part in filled), max(int(part[-1]) for part in filled)
    if high - low + 1 > SPARSE * max(len(part) for part in filled):
        found, counts = np.unique(np.concatenate(filled), return_counts=True)
        return found, counts.astype(np.int64)
    counter = np.zeros(high - low + 1, dtype=np.int64)
    for part in filled:
        if int(part[-1]) - int(part[0]) + 1 == len(part):
            counter[int(part[0]) - low : int(part[-1]) - low + 1] += 1
        else:
            counter[part - low] += 1
    numbers = np.flatnonzero(counter)
    return numbers + low, counter[numbers]


def _positions(seq: Ints, numbers: Ints) -> Ints | slice:
    """Where `numbers`, all of them in `seq`, stand in it; a slice where both are unbroken runs."""
    if len(numbers) and int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers):
        start = int(np.searchsorted(seq, numbers[0]))
        end = start + len(numbers)
        if end <= len(seq) and int(seq[end - 1]) == int(numbers[-1]):
            return slice(start, end)
    places: Ints = np.searchsorted(seq, numbers)
    return places
