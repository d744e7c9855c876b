"""How an odd rank's calls lie to the others' from the first difference on: another order, one left out, or one more.

Told where the calls are of more than one kind and enough of them follow; a loop of equal calls looks the same shifted.
"""

from __future__ import annotations

from rankmuster.diagnose.roll import RollTable
from rankmuster.model.flight_report import Shift
from rankmuster.model.job import Group

FOLLOWING = 8
"""Numbers from the difference on that are compared; a group stops within a few of it."""

FEWEST = 3
"""Calls that must agree under the shift: two may by chance."""


def shift_of(table: RollTable, group: Group, seq: int, odd: tuple[int, ...]) -> Shift | None:
    """None where nobody is odd, or what follows does not tell."""
    others = [rank for rank in group.members if rank not in odd and (group.key, rank) in table.rolls]
    if not odd or not others:
        return None
    own = _calls(table, group.key, odd[0], seq)
    reference = max((_calls(table, group.key, rank, seq) for rank in others[:FOLLOWING]), key=len)
    left_out, one_more = _agree(own, reference[1:]), _agree(own[1:], reference)
    if left_out or one_more:
        # Of two calls that take turns, one less and one more look the same.
        return None if left_out and one_more else Shift.LEFT_OUT if left_out else Shift.ONE_MORE
    for length in range(2, min(len(own), len(reference)) + 1):
        alike = sorted(own[:length]) == sorted(reference[:length])
        both = min(len(own), len(reference))
        if alike and own[length:both] == reference[length:both]:
            return Shift.OTHER_ORDER
    return None


def _agree(one: list[int], other: list[int]) -> bool:
    both = min(len(one), len(other))
    return both >= FEWEST and one[:both] == other[:both] and len(set(one[:both])) > 1


def _calls(table: RollTable, key: int, rank: int, seq: int) -> list[int]:
    """What a rank passed from `seq` on, without gaps."""
    roll = table.rolls.get((key, rank))
    start = roll.at(seq) if roll is not None else None
    if roll is None or start is None:
        return []
    calls: list[int] = roll.signature[start : start + FOLLOWING].tolist()
    return calls
