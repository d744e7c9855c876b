"""Change points: marked once, decided by a person, never removed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from rankmuster.model.history import ChangePoint, ChangeState
from rankmuster.report.history_words import when
from rankmuster.store.damage import stored
from rankmuster.store.errors import Refused
from rankmuster.store.plain import CELL_NAMES, cell_key, cell_of, sound
from rankmuster.store.schema import cell_table, change_table
from rankmuster.store.write_runs import cell_numbers

SAME_CHANGE_S = 86_400.0
"""Seconds within which two steps of the same cell and direction are one: with every further run the estimate of its
moment may move to the run before or after, and nodes are measured about daily. Without this each nightly look would
mark the same step again."""


def put_change(connection: Connection, point: ChangePoint) -> ChangePoint:
    """See `History.put_change`."""
    if connection.dialect.name == "postgresql":
        # two looks at once would each see that nobody has marked it; SQLite has one writer anyway
        connection.exec_driver_sql(f"LOCK TABLE {change_table.name} IN SHARE ROW EXCLUSIVE MODE")
    for other in read_changes(connection, class_hash=point.class_hash, profile=point.profile):
        near = abs(other.at - point.at) <= SAME_CHANGE_S
        if near and other.cell == point.cell and _falls(other) == _falls(point):
            return other
    return insert_change(connection, point)


def insert_change(connection: Connection, point: ChangePoint) -> ChangePoint:
    """Stores a change point whatever is there; with its id. Raises Refused."""
    for number in (point.at, point.before, point.after, point.until):
        if number is not None and not math.isfinite(number):
            raise Refused(f"the change point of {point.class_hash[:20]} cannot be stored: {number} is no number")
    cells = cell_numbers(connection, [point.cell] if point.cell is not None else [])
    number = connection.execute(
        insert(change_table).returning(change_table.c.id),
        {
            "class_hash": sound(point.class_hash),
            "profile": sound(point.profile),
            "cell_id": None if point.cell is None else cells[cell_key(point.cell)],
            "at": float(point.at),
            "level_before": point.before,
            "level_after": point.after,
            "nodes": point.nodes,
            "state": point.state.value,
            "note": sound(point.note),
            "kept_out_until": point.until,
        },
    ).scalar_one()
    return _one(connection, number)


def set_state(connection: Connection, number: int, state: ChangeState, note: str, until: float | None) -> ChangePoint:
    """See `History.set_change_state`."""
    known = _one(connection, number)
    if until is not None and not (math.isfinite(until) and until > known.at):
        raise Refused(f"change point {number} is of {when(known.at)} UTC: the runs kept out cannot end before it")
    values: dict[str, Any] = {"state": state.value}
    values["kept_out_until"] = until if state is ChangeState.DISMISSED else None
    if note:
        values["note"] = sound(note)
    connection.execute(update(change_table).where(change_table.c.id == number).values(**values))
    return _one(connection, number)


def read_changes(
    connection: Connection,
    *,
    class_hash: str | None = None,
    profile: str | None = None,
    states: Sequence[ChangeState] = (),
    number: int | None = None,
) -> tuple[ChangePoint, ...]:
    """Change points, oldest first."""
    change = change_table.c
    cell = [cell_table.c[name] for name in CELL_NAMES]
    query = (
        select(change.id, change.class_hash, change.profile, change.at, change.level_before, change.level_after)
        .add_columns(change.nodes, change.state, change.note, change.kept_out_until, *cell)
        .select_from(change_table)
        .outerjoin(cell_table, cell_table.c.id == change.cell_id)
        .order_by(change.at, change.id)
    )
    if class_hash is not None:
        query = query.where(change.class_hash == class_hash)
    if profile is not None:
        query = query.where(change.profile == profile)
    if states:
        query = query.where(change.state.in_([state.value for state in states]))
    if number is not None:
        query = query.where(change.id == number)
    with stored("a change point"):
        return tuple(_point(row) for row in connection.execute(query))


def _point(row: Any) -> ChangePoint:
    at, before, after, until = (None if row[place] is None else _number(row[place]) for place in (3, 4, 5, 9))
    if at is None:
        raise ValueError(f"change point {row[0]} has no time")
    return ChangePoint(
        class_hash=row[1],
        profile=row[2],
        cell=None if row[10] is None else cell_of(*row[10:]),
        at=at,
        before=before,
        after=after,
        nodes=int(row[6]),
        state=ChangeState(row[7]),
        note=row[8],
        id=row[0],
        until=until,
    )


def _number(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number")
    return float(value)


def _one(connection: Connection, number: int) -> ChangePoint:
    found = read_changes(connection, number=number)
    if not found:
        raise Refused(f"there is no change point {number}; `rankmuster history changes list` shows those there are")
    return found[0]


def _falls(point: ChangePoint) -> bool | None:
    if point.before is None or point.after is None:
        return None
    return point.after < point.before
