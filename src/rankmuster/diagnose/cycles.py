"""In a cycle nobody is the sink: the odd one is the rank whose order of operations differs from the majority's."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from rankmuster.diagnose.program_order import broke_order, roles_of
from rankmuster.diagnose.roll import RollTable

LOOK_AHEAD = 64
"""Operations after the last common one that are compared; the divergence lies among the first of them."""

LOOK_BACK = 32
"""Operations before it by which ranks with the same program are told; a step of a model has about as many."""

LEAST_PAST = 4
"""... and the fewest that tell them; at the start of a program there is no past to compare."""

MAX_HABITS = 16
"""Ranks of a ring whose own past is searched; larger rings have a majority."""


@dataclass(frozen=True, slots=True)
class OddOrder:
    """`ranks`: the minority, empty without a majority. `text`: what they did instead."""

    ranks: tuple[int, ...]
    text: str


def odd_order(table: RollTable, ring: tuple[int, ...]) -> OddOrder:
    """Who of the ring left the common order: against ranks with the same past, or against its own."""
    if any(rank not in table.rows or table.rows[rank].dump.only_active for rank in ring):
        # A log names no order, and a dump of active operations alone leaves most of it out.
        return OddOrder((), "")
    around = [group.key for group in table.groups if set(ring) <= set(group.members)]
    for key in sorted(around, key=lambda key: -len(table.group(key).members)):
        peers = [
            rank
            for rank in table.group(key).members
            if (key, rank) in table.rolls and not table.rows[rank].dump.only_active
        ]
        common = min((table.views[(key, rank)].finished for rank in peers), default=-1)
        found = [
            odd
            for equals in _same_past(table, key, peers, common)
            if (odd := _against(table, key, equals, common)).ranks and set(odd.ranks) <= set(ring)
        ]
        if len(found) == 1:
            return found[0]
    broke = broke_order(table, ring[:MAX_HABITS])
    if broke:
        return OddOrder(tuple(sorted(broke)), "; ".join(dict.fromkeys(broke.values())))
    return OddOrder((), "")


def _same_past(table: RollTable, key: int, peers: list[int], common: int) -> list[tuple[int, ...]]:
    """Peers that did the same up to the last common collective: stages of a pipeline differ by design."""
    classes: dict[tuple[str, ...], list[int]] = defaultdict(list)
    pasts = {}
    for rank in peers:
        start = _start(table, key, rank, common)
        pasts[rank] = [token for row, token in roles_of(table, rank) if row <= start]
    length = min(LOOK_BACK, min((len(past) for past in pasts.values()), default=0))
    if length < LEAST_PAST:
        return []
    for rank, past in pasts.items():
        classes[tuple(past[-length:])].append(rank)
    return [tuple(ranks) for ranks in classes.values() if len(ranks) > 2]


def _start(table: RollTable, key: int, rank: int, common: int) -> int:
    roll = table.rolls[(key, rank)]
    position = roll.at(common)
    return int(roll.row[position]) if position is not None else -1


def _against(table: RollTable, key: int, peers: tuple[int, ...], common: int) -> OddOrder:
    """Compares what each peer enqueued after the last collective of the group that all of them finished."""
    orders = {}
    for rank in peers:
        start = _start(table, key, rank, common)
        orders[rank] = [token for row, token in roles_of(table, rank) if row > start][:LOOK_AHEAD]
    for step in range(LOOK_AHEAD):
        here = {rank: order[step] for rank, order in orders.items() if step < len(order)}
        if len(here) < 2:
            break
        counts = Counter(here.values())
        if len(counts) == 1:
            continue
        (what, most), *_ = counts.most_common(1)
        if most * 2 <= len(here):
            return OddOrder((), "")
        odd = tuple(sorted(rank for rank, token in here.items() if token != what))
        done = sorted({here[rank] for rank in odd})
        return OddOrder(odd, f"{' and '.join(done)} where {most} of {len(here)} did {what}")
    return OddOrder((), "")
