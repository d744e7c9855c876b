"""In a cycle nobody is the sink: the odd one is the rank whose order of operations differs from the majority's."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.roll import RollTable

LOOK_AHEAD = 64
"""Operations after the last common one that are compared; the divergence lies among the first of them."""

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class OddOrder:
    """`ranks`: the minority, empty without a majority. `text`: what they did instead."""

    ranks: tuple[int, ...]
    text: str


def odd_order(table: RollTable, ring: tuple[int, ...]) -> OddOrder:
    """Compares what each rank enqueued after the last collective that all of them finished, by group role and op."""
    key = _widest_group(table, ring)
    if key is None:
        return OddOrder((), "")
    members = [rank for rank in table.group(key).members if (key, rank) in table.rolls]
    common = min((table.views[(key, rank)].finished for rank in members), default=-1)
    orders = {rank: _after(table, key, rank, common) for rank in members}
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


def _widest_group(table: RollTable, ring: tuple[int, ...]) -> int | None:
    """The largest group that has every rank of the ring and where one of them stands."""
    fitting = [
        group.key
        for group in table.groups
        if set(ring) <= set(group.members)
        and any((head := table.heads.get(rank)) is not None and head.group == group.key for rank in group.members)
    ]
    return max(fitting, key=lambda key: len(table.group(key).members), default=None)


def _after(table: RollTable, key: int, rank: int, common: int) -> list[str]:
    roll = table.rolls[(key, rank)]
    position = roll.at(common)
    start = int(roll.row[position]) if position is not None else -1
    flight = table.rows[rank]
    columns = flight.dump.columns
    tokens = []
    for place in np.flatnonzero(flight.row > start)[:LOOK_AHEAD].tolist():
        index = int(flight.group[place])
        group = table.local_groups.get((rank, index))
        role = _DIGITS.sub("", table.group(group).label) if group is not None else "?"
        op = columns.ops[int(flight.op[place])].split(":", 1)[-1]
        size = len(table.group(group).members) if group is not None else 0
        tokens.append(f"{op} in {role or 'group'} of {size}")
    return tokens
