"""All-to-alls and gathers of lists with uneven parts: legal, and compared part by part between giver and taker."""

from __future__ import annotations

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.flight_report.differences import entered_at
from rankmuster.diagnose.legal import elements, is_uneven_list
from rankmuster.diagnose.signatures import Signature
from rankmuster.model.flight_report import Exchanges, PeerClash
from rankmuster.model.job import Group

LISTS = ("all_to_all", "alltoall", "all_gather", "allgather")

MAX_TOLD = 16
"""Clashes told of one group."""

MAX_COMPARED = 500
"""Newest numbers of one group that are compared; the detector has compared all of them for its first difference."""


def exchanges(context: Context) -> dict[int, Exchanges]:
    """Per group key, for groups that exchanged lists of uneven parts."""
    table = context.table
    uneven = np.array([_is_uneven(signature) for signature in table.signatures], dtype=bool)
    if not uneven.any():
        return {}
    numbers: dict[int, set[int]] = {}
    for (key, _), roll in table.rolls.items():
        rows = uneven[roll.signature]
        if rows.any():
            numbers.setdefault(key, set()).update(roll.seq[rows].tolist())
    found = {}
    for key, own in numbers.items():
        told = _compare(context, table.group(key), sorted(own)[-MAX_COMPARED:])
        if told is not None:
            found[key] = told
    return found


def _is_uneven(signature: Signature) -> bool:
    """A list with one tensor per peer, not all of one size."""
    if not signature.op.lower().lstrip("_").startswith(LISTS):
        return False
    return any(
        len(shapes) > 1 and len(set(map(elements, shapes))) > 1 for shapes in (signature.in_sizes, signature.out_sizes)
    )


def _compare(context: Context, group: Group, numbers: list[int]) -> Exchanges | None:
    compared, clashing = 0, 0
    clashes: list[PeerClash] = []
    for seq in numbers:
        entered = entered_at(context.table, group, seq)
        if len(entered) < 2 or len({signature.op for signature in entered.values()}) > 1:
            continue
        if not is_uneven_list(entered, group.members):
            continue
        compared += 1
        wrong = _clashes(seq, entered, group.members)
        clashing += bool(wrong)
        clashes += wrong
    return Exchanges(compared, tuple(clashes[:MAX_TOLD]), clashing) if compared else None


def _clashes(seq: int, entered: dict[int, Signature], members: tuple[int, ...]) -> list[PeerClash]:
    place = {member: index for index, member in enumerate(members)}
    gathers = next(iter(entered.values())).op.lower().lstrip("_").startswith(("all_gather", "allgather"))
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
