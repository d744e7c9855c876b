"""What the members of one group show together."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.diagnose.roll import Head
from rankmuster.model.fault import FaultClass, Progress
from rankmuster.model.flight_report import PLACED, Difference, Divergence, GroupState, RankPlace
from rankmuster.model.verdict import Verdict

AT_REST = frozenset({Progress.ADVANCING, Progress.SLOW, Progress.IDLE})
"""States in which what is outstanding is an ordinary tail."""


def moves(verdict: Verdict, in_motion: bool) -> bool:
    """Whether outstanding operations convict nobody: the dumps, or other planes, show that work advances."""
    return in_motion or verdict.class_ is FaultClass.HEALTHY or verdict.progress in AT_REST


def state_of(
    places: tuple[RankPlace, ...],
    heads: Sequence[Head],
    difference: Difference | None,
    divergence: Divergence | None,
    moving: bool,
) -> GroupState:
    """`heads`: what members stand at in this very group. `moving`: see `moves`."""
    if difference is not None:
        return GroupState.DIFFERENCE
    placed = [place for place in places if place.known in PLACED]
    entered = max((place.entered for place in placed), default=-1)
    outstanding = bool(heads) or any(place.finished < place.entered and place.stands for place in placed)
    if moving:
        return GroupState.TAIL if outstanding or divergence is not None else GroupState.LEVEL
    numbers = [head.seq for head in heads if head.seq is not None]
    if numbers and divergence is not None and max(numbers) >= divergence.sequence:
        return GroupState.NOT_COME
    if numbers and len(placed) < len(places):
        return GroupState.UNPLACED
    if numbers:
        return GroupState.NOT_LEFT
    if heads:
        return GroupState.MESSAGES
    return GroupState.QUEUED if entered >= 0 and (divergence is not None or outstanding) else GroupState.LEVEL
