"""How like rows of the roll call are told as one: a thousand ranks that do the same are one line."""

from __future__ import annotations

from dataclasses import replace

from rankmuster.model.fault import Role
from rankmuster.report.rollcall import Place, Row

UTIL_STEP = 25
"""Like rows may differ in GPU utilisation within a quarter of the scale."""

MAX_NOTES = 3
"""Notes kept of rows told as one."""


def _likeness(row: Row, coarse: bool) -> tuple[object, ...]:
    band = None if row.util is None else int(row.util // UTIL_STEP)
    where = (row.entered and row.entered.group) if coarse else (row.entered, row.finished)
    ras: object = row.ras if not (coarse and row.ras.isdigit()) else "counted"
    return (
        row.role,
        row.state,
        where,
        ras,
        row.link,
        row.dump,
        bool(row.notes) if coarse else row.notes,
        None if coarse else band,
    )


def _widest(places: list[Place | None]) -> Place | None:
    known = [place for place in places if place is not None]
    if not known:
        return None
    ops = {place.op for place in known}
    first, last = min(place.first for place in known), max(place.last for place in known)
    return Place(known[0].group, first, last, known[0].op if len(ops) == 1 else "")


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _together(rows: list[Row]) -> Row:
    if len(rows) == 1:
        return rows[0]
    counts = {row.ras for row in rows}
    ras = rows[0].ras
    if len(counts) > 1:
        numbers = [int(count) for count in counts]
        ras = f"{min(numbers)}-{max(numbers)}"
    return replace(
        rows[0],
        ranks=tuple(rank for row in rows for rank in row.ranks),
        hosts=tuple(dict.fromkeys(host for row in rows for host in row.hosts)),
        pid=None,
        gpu=None,
        entered=_widest([row.entered for row in rows]),
        finished=_widest([row.finished for row in rows]),
        ras=ras,
        util=_mean([row.util for row in rows]),
        rate=_mean([row.rate for row in rows]),
        notes=tuple(dict.fromkeys(note for row in rows for note in row.notes))[:MAX_NOTES],
    )


def collapse(rows: tuple[Row, ...], limit: int) -> tuple[tuple[Row, ...], int]:
    """At most `limit` rows: like ranks as one row, and the number of ranks that had to be left out.

    Up to `limit` ranks are told one by one. Culprits and suspects never share a row and come first where rows are cut.
    """
    if len(rows) <= limit:
        return rows, 0
    told: list[Row] = []
    for coarse in (False, True):
        alike: dict[tuple[object, ...], list[Row]] = {}
        for row in rows:
            alone = row.role in (Role.CULPRIT, Role.SUSPECT)
            alike.setdefault((row.ranks,) if alone else _likeness(row, coarse), []).append(row)
        told = [_together(same) for same in alike.values()]
        if len(told) <= limit:
            break
    gravity = {Role.CULPRIT: 0, Role.SUSPECT: 1}
    kept = sorted(told, key=lambda row: (gravity.get(row.role, 2) if row.role else 2, len(row.ranks), row.ranks))[
        :limit
    ]
    left = sum(len(row.ranks) for row in told) - sum(len(row.ranks) for row in kept)
    return tuple(sorted(kept, key=lambda row: row.ranks[0])), left
