"""What the members of one group show together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankmuster.diagnose.roll import Head
from rankmuster.model.fault import FaultClass, Progress
from rankmuster.model.flight_report import PLACED, Difference, Divergence, GroupState, RankPlace, Stand
from rankmuster.model.verdict import Verdict

AT_REST = frozenset({Progress.ADVANCING, Progress.SLOW, Progress.IDLE})
"""States in which what is outstanding is an ordinary tail."""


def moves(verdict: Verdict, in_motion: bool) -> bool:
    """Whether outstanding operations convict nobody: the dumps, or other planes, show that work advances."""
    return in_motion or verdict.class_ is FaultClass.HEALTHY or verdict.progress in AT_REST


def state_of(
    key: int,
    places: tuple[RankPlace, ...],
    heads: Sequence[Head],
    all_heads: Mapping[int, Head | None],
    difference: Difference | None,
    divergence: Divergence | None,
    moving: bool,
) -> GroupState:
    """`heads`: what members stand at in the group of `key`; `all_heads`: what all ranks do. `moving`: see `moves`."""
    if difference is not None:
        return GroupState.DIFFERENCE
    placed = [place for place in places if place.known in PLACED]
    entered = max((place.entered for place in placed), default=-1)
    outstanding = bool(heads) or any(place.finished < place.entered and place.stands for place in placed)
    if moving:
        return GroupState.TAIL if outstanding or divergence is not None else GroupState.LEVEL
    numbers = [head.seq for head in heads if head.seq is not None]
    if numbers and divergence is not None and max(numbers) >= divergence.sequence:
        elsewhere = all(_is_elsewhere(all_heads.get(rank), key) for rank in divergence.missing)
        return GroupState.HELD if elsewhere else GroupState.NOT_COME
    if numbers and len(placed) < len(places):
        return GroupState.UNPLACED
    if numbers:
        awaited = [place.stands for place in placed if place.finished < max(numbers)]
        return GroupState.HELD if any(_stands_elsewhere(stand, key) for stand in awaited) else GroupState.NOT_LEFT
    if heads:
        held = all(_leads_elsewhere(head, all_heads, key) for head in heads)
        return GroupState.HELD if held else GroupState.MESSAGES
    return GroupState.QUEUED if entered >= 0 and (divergence is not None or outstanding) else GroupState.LEVEL


def _is_elsewhere(head: Head | None, key: int) -> bool:
    return head is not None and head.group != key


def _leads_elsewhere(head: Head, all_heads: Mapping[int, Head | None], key: int) -> bool:
    """Whether the peers of a send or receive, one after the other, lead to a rank that stands in another group."""
    seen = {head.rank}
    here: Head | None = head
    while here is not None and here.group == key and here.peer is not None and here.peer not in seen:
        seen.add(here.peer)
        here = all_heads.get(here.peer)
    return _is_elsewhere(here, key)


def _stands_elsewhere(stand: Stand | None, key: int) -> bool:
    return stand is not None and stand.group != key
