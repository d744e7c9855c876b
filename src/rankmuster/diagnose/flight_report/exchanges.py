"""All-to-alls and gathers of lists with uneven parts: legal, and compared part by part between giver and taker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from rankmuster.diagnose.call_matrix import call_matrix
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.flight_report.differences import entered_at
from rankmuster.diagnose.legal import Sizes, elements, is_uneven_list, sizes_of
from rankmuster.diagnose.legal_columns import surely_legal
from rankmuster.diagnose.signatures import Signature
from rankmuster.model.flight import Ints
from rankmuster.model.flight_report import Exchanges, PeerClash
from rankmuster.model.job import Group

MAX_TOLD = 16
"""Clashes told of one group."""

MAX_DOUBTFUL = 64
"""Numbers of one group that are compared part by part, where the whole table does not show that they agree."""


def exchanges(context: Context, different: Collection[int]) -> dict[int, Exchanges]:
    """Per group key, for groups that exchanged lists of uneven parts.

    `different`: groups in which the mismatch detector found an illegal call; it has compared all numbers of the others.
    """
    table = context.table
    uneven = np.array([_is_uneven(signature) for signature in table.signatures], dtype=bool)
    if not uneven.any():
        return {}
    numbers: dict[int, list[Ints]] = defaultdict(list)
    for (key, _), roll in table.rolls.items():
        rows = uneven[roll.signature]
        if rows.any():
            numbers[key].append(roll.seq[rows])
    found = {}
    for key, own in numbers.items():
        if key in different:
            told = _compare(context, table.group(key), uneven)
            if told is not None:
                found[key] = told
            continue
        _, holders = np.unique(np.concatenate(own), return_counts=True)
        compared = int((holders > 1).sum())
        if compared:
            found[key] = Exchanges(compared, (), 0)
    return found


def _is_uneven(signature: Signature) -> bool:
    """A list with one tensor per peer, not all of one size."""
    if sizes_of(signature.op) not in (Sizes.EXCHANGE, Sizes.GATHER_ALL):
        return False
    both = (signature.in_sizes, signature.out_sizes)
    return any(len(shapes) > 1 and len(set(map(elements, shapes))) > 1 for shapes in both)


def _compare(context: Context, group: Group, uneven: NDArray[np.bool_]) -> Exchanges | None:
    table = context.table
    rolls = [roll for rank in group.members if (roll := table.rolls.get((group.key, rank))) is not None]
    matrix = call_matrix(table, rolls)
    here = ((matrix.calls >= 0) & uneven[matrix.calls]).any(axis=0) & ((matrix.calls >= 0).sum(axis=0) > 1)
    columns = np.flatnonzero(here)
    legal = surely_legal(matrix.calls[:, columns], table.signatures, len(group.members))
    compared, clashing = int(legal.sum()), 0
    clashes: list[PeerClash] = []
    for seq in matrix.numbers[columns[~legal]][-MAX_DOUBTFUL:].tolist():
        entered = entered_at(table, group, seq)
        if len({signature.op for signature in entered.values()}) > 1 or not is_uneven_list(entered, group.members):
            continue
        compared += 1
        wrong = _clashes(seq, entered, group.members)
        clashing += bool(wrong)
        clashes += wrong
    return Exchanges(compared, tuple(clashes[:MAX_TOLD]), clashing) if compared else None


def _clashes(seq: int, entered: dict[int, Signature], members: tuple[int, ...]) -> list[PeerClash]:
    place = {member: index for index, member in enumerate(members)}
    gathers = sizes_of(next(iter(entered.values())).op) is Sizes.GATHER_ALL
    ranks = [rank for rank in entered if rank in place]
    expected = np.array([[elements(entered[taker].out_sizes[place[giver]]) for taker in ranks] for giver in ranks])
    if gathers:
        passed = np.array([[sum(map(elements, entered[giver].in_sizes))] * len(ranks) for giver in ranks])
    else:
        passed = np.array([[elements(entered[giver].in_sizes[place[taker]]) for taker in ranks] for giver in ranks])
    return [
        PeerClash(seq, ranks[giver], ranks[taker], int(passed[giver, taker]), int(expected[giver, taker]))
        for giver, taker in np.argwhere(passed != expected).tolist()
    ]
