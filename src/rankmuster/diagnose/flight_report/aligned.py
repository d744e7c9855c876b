"""The last numbers of a group side by side, members that did the same at all of them as one column."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

import numpy as np

from rankmuster.diagnose.call_matrix import call_matrix
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.flight_report.calls import call_text
from rankmuster.diagnose.roll import RankRoll
from rankmuster.model.flight import Ints
from rankmuster.model.flight_report import Aligned, AlignedRow, GroupReport, Step

BEFORE = 4
"""Numbers before the first difference that are shown with it."""

_STEPS = tuple(Step)
_PLACE = {step: index for index, step in enumerate(_STEPS)}


def aligned(context: Context, report: GroupReport, ranks: Collection[int] | None, most: int | None) -> Aligned | None:
    """Up to `most` numbers (None: all), from shortly before the first difference on, else the last ones.

    `ranks`: None for all members. None where none of them holds a number.
    """
    table = context.table
    members = [rank for rank in report.members if ranks is None or rank in ranks]
    rolls = {rank: roll for rank in members if (roll := table.rolls.get((report.key, rank))) is not None}
    if not rolls:
        return None
    before = BEFORE if most is None else min(BEFORE, most // 2)
    low = report.difference.sequence - before if report.difference is not None else None
    matrix = call_matrix(table, rolls.values(), low)
    held = np.flatnonzero((matrix.calls >= 0).any(axis=0))
    if most is not None:
        held = held[:most] if low is not None else held[-most:]
    numbers, calls = matrix.numbers[held], matrix.calls[:, held]
    alike: dict[bytes, list[int]] = defaultdict(list)
    steps: dict[int, Ints] = {}
    for place, (rank, roll) in enumerate(rolls.items()):
        steps[rank] = _steps(roll, numbers)
        alike[steps[rank].tobytes() + calls[place].tobytes()].append(rank)
    columns = sorted(map(tuple, alike.values()), key=lambda column: (len(column), column))
    row_of = {rank: place for place, rank in enumerate(rolls)}
    rows = []
    for index, number in enumerate(numbers.tolist()):
        passed = Counter(int(call) for call in calls[:, index] if call >= 0)
        usual = passed.most_common(1)[0][0]
        cells = []
        for column in columns:
            own = int(calls[row_of[column[0]], index])
            other = call_text(table.signatures[own]) if own not in (-1, usual) else None
            cells.append((_STEPS[int(steps[column[0]][index])], other))
        rows.append(AlignedRow(number, call_text(table.signatures[usual]), tuple(cells)))
    return Aligned(report.key, report.label, tuple(columns), tuple(rows))


def _steps(roll: RankRoll, numbers: Ints) -> Ints:
    """-> `Step`, per number."""
    place = np.clip(np.searchsorted(roll.seq, numbers), 0, len(roll.seq) - 1)
    there = roll.seq[place] == numbers
    absent = np.where(
        numbers > roll.seq[-1],
        _PLACE[Step.NOT_ENTERED],
        np.where(numbers < roll.seq[0], _PLACE[Step.UNKNOWN], _PLACE[Step.NOT_RECORDED]),
    )
    present = np.select(
        [roll.finished[place], roll.failed[place], roll.started[place]],
        [_PLACE[Step.FINISHED], _PLACE[Step.FAILED], _PLACE[Step.STARTED]],
        default=_PLACE[Step.ENQUEUED],
    )
    found: Ints = np.where(there, present, absent).astype(np.int64)
    return found
