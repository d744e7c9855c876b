"""The first number of a group that not every member whose place is known has entered."""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.flight_report.calls import call_at
from rankmuster.diagnose.standing import first_number
from rankmuster.model.flight_report import PLACED, Divergence, Known, RankPlace
from rankmuster.model.job import Group


def divergence(context: Context, group: Group, places: tuple[RankPlace, ...]) -> Divergence | None:
    """None where all are at one number. Dumps older than their peers', and ends cut off, tell nothing of absence."""
    rows = context.table.rows
    sure: list[tuple[int, int]] = []  # (entered, rank)
    unknown: list[int] = []
    for place in places:
        if place.known is Known.OLDER or place.known not in PLACED:
            unknown += place.ranks
            continue
        for rank in place.ranks:
            flight = rows.get(rank)
            if flight is not None and flight.dump.cut:
                unknown.append(rank)
            else:
                sure.append((place.entered, rank))
    if not sure:
        return None
    lowest, highest = min(sure)[0], max(sure)[0]
    if lowest == highest:
        return None
    ahead = tuple(sorted(rank for entered, rank in sure if entered > lowest))
    found = first_number(context.table, group.key, lowest, ahead)
    seq = found[0] if found is not None else lowest + 1
    entered = tuple(sorted(rank for last, rank in sure if last >= seq))
    missing = tuple(sorted(rank for last, rank in sure if last < seq))
    return Divergence(seq, call_at(context.table, group.key, seq, entered), entered, missing, tuple(sorted(unknown)))
