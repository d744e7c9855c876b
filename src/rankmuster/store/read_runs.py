"""Runs of every state, whole, and how much the history holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, func, or_, select

from rankmuster.model.benchmark import HistoryRun, HistoryValue, RunState
from rankmuster.model.history import ChangeState, ClassCount
from rankmuster.store.damage import changed, stored
from rankmuster.store.errors import Damaged
from rankmuster.store.plain import cell_of, choices_of, settings_of
from rankmuster.store.query import results_of
from rankmuster.store.run_digest import digest_of
from rankmuster.store.schema import (
    change_table,
    choices_table,
    class_table,
    node_table,
    profile_table,
    run_table,
)

CHUNK = 500
"""Runs read at a time."""


def asked(
    *,
    class_hash: str | None = None,
    profile: str | None = None,
    node: str | None = None,
    state: RunState | None = None,
    since: float | None = None,
    until: float | None = None,
) -> list[ColumnElement[bool]]:
    """Conditions on `whole_runs`; None: not asked."""
    found: list[ColumnElement[bool]] = []
    if class_hash is not None:
        found.append(class_table.c.class_hash == class_hash)
    if profile is not None:
        found.append(profile_table.c.key == profile)
    if node is not None:
        of_node = select(node_table.c.id).where(node_table.c.node_hash == node).scalar_subquery()
        found.append(or_(run_table.c.node_id == of_node, run_table.c.host == node))
    if state is not None:
        found.append(run_table.c.state == state.value)
    if since is not None:
        found.append(run_table.c.started_at >= since)
    if until is not None:
        found.append(run_table.c.started_at < until)
    return found


def runs_by_time(
    connection: Connection, conditions: Iterable[ColumnElement[bool]], limit: int | None
) -> tuple[HistoryRun, ...]:
    """Whole runs, newest first."""
    order = (run_table.c.started_at.desc(), run_table.c.record)
    rows = connection.execute(_whole().where(*conditions).order_by(*order).limit(limit)).all()
    return tuple(run for start in range(0, len(rows), CHUNK) for run in _made(connection, rows[start : start + CHUNK]))


def every_run(connection: Connection) -> Iterator[list[HistoryRun]]:
    """All runs in the order in which they were stored, in parts that fit in memory."""
    last = 0
    while rows := connection.execute(_whole().where(run_table.c.id > last).order_by(run_table.c.id).limit(CHUNK)).all():
        yield _made(connection, rows)
        last = rows[-1][0]


def each_run(connection: Connection) -> Iterator[list[tuple[int, str, HistoryRun | Damaged]]]:
    """(number, record, the run or what is wrong with it) of all runs, in parts."""
    last = 0
    while rows := connection.execute(_whole().where(run_table.c.id > last).order_by(run_table.c.id).limit(CHUNK)).all():
        try:
            yield [(row[0], row[1], run) for row, run in zip(rows, _made(connection, rows), strict=True)]
        except Damaged:
            yield [(row[0], str(row[1]), _alone(connection, row)) for row in rows]
        last = rows[-1][0]


def _alone(connection: Connection, row: Any) -> HistoryRun | Damaged:
    try:
        return _made(connection, [row])[0]
    except Damaged as error:
        return error


def count_before(connection: Connection, before: float) -> int:
    """Runs that started before a time."""
    query = select(func.count()).select_from(run_table).where(run_table.c.started_at < before)
    return connection.execute(query).scalar() or 0


def remove_before(connection: Connection, before: float) -> int:
    """Removes them; their results go with them."""
    return connection.execute(delete(run_table).where(run_table.c.started_at < before)).rowcount


def count_classes(connection: Connection) -> tuple[ClassCount, ...]:
    """See `History.classes`."""
    started = run_table.c.started_at
    key = (class_table.c.class_hash, profile_table.c.key)
    query = (
        select(*key, class_table.c.kin_hash, class_table.c.settings, run_table.c.state)
        .add_columns(func.count(), func.min(started), func.max(started))
        .select_from(run_table)
        .join(class_table, class_table.c.id == run_table.c.class_id)
        .join(profile_table, profile_table.c.id == run_table.c.profile_id)
        .group_by(*key, class_table.c.kin_hash, class_table.c.settings, run_table.c.state)
    )
    groups: dict[tuple[str, str], list[Any]] = {}
    for row in connection.execute(query):
        groups.setdefault((row[0], row[1]), []).append(row)
    nodes = _nodes(connection)
    changes = _open_changes(connection)
    with stored("a class"):
        return _counts(groups, nodes, changes)


def _counts(
    groups: dict[tuple[str, str], list[Any]], nodes: dict[tuple[str, str], int], changes: dict[tuple[str, str], int]
) -> tuple[ClassCount, ...]:
    return tuple(
        ClassCount(
            class_hash=name,
            kin_hash=rows[0][2],
            settings=settings_of(rows[0][3]),
            profile=profile,
            nodes=nodes[name, profile],
            states={RunState(row[4]).value: row[5] for row in sorted(rows, key=lambda row: str(row[4]))},
            first=min(float(row[6]) for row in rows),
            last=max(float(row[7]) for row in rows),
            open_changes=changes.get((name, profile), 0),
        )
        for (name, profile), rows in sorted(groups.items())
    )


def _nodes(connection: Connection) -> dict[tuple[str, str], int]:
    query = (
        select(class_table.c.class_hash, profile_table.c.key, func.count(run_table.c.node_id.distinct()))
        .select_from(run_table)
        .join(class_table, class_table.c.id == run_table.c.class_id)
        .join(profile_table, profile_table.c.id == run_table.c.profile_id)
        .group_by(class_table.c.class_hash, profile_table.c.key)
    )
    return {(name, profile): count for name, profile, count in connection.execute(query)}


def _open_changes(connection: Connection) -> dict[tuple[str, str], int]:
    query = (
        select(change_table.c.class_hash, change_table.c.profile, func.count())
        .where(change_table.c.state == ChangeState.OPEN.value)
        .group_by(change_table.c.class_hash, change_table.c.profile)
    )
    return {(name, profile): count for name, profile, count in connection.execute(query)}


def _whole() -> Select[Any]:
    run = run_table.c
    return (
        select(run.id, run.record, class_table.c.class_hash, class_table.c.kin_hash, node_table.c.node_hash)
        .add_columns(run.host, profile_table.c.key, run.tool, run.started_at, run.state, run.reason)
        .add_columns(class_table.c.settings, choices_table.c.choices, run.digest)
        .select_from(run_table)
        .join(class_table, class_table.c.id == run.class_id)
        .join(profile_table, profile_table.c.id == run.profile_id)
        .join(node_table, node_table.c.id == run.node_id)
        .join(choices_table, choices_table.c.id == run.choices_id)
    )


def _made(connection: Connection, rows: Sequence[Any]) -> list[HistoryRun]:
    with stored("a result"):
        values = _values(connection, [row[0] for row in rows])
    with stored("a run"):
        made = [_run(row, values.get(row[0], [])) for row in rows]
        for row, run in zip(rows, made, strict=True):
            if row[-1] is None or digest_of(run) != bytes(row[-1]):
                raise changed(run.record)
        return made


def _run(row: Any, values: Sequence[HistoryValue]) -> HistoryRun:
    return HistoryRun(
        record=row[1],
        class_hash=row[2],
        kin_hash=row[3],
        node_hash=row[4],
        host=row[5],
        profile=row[6],
        tool=row[7],
        started_at=float(row[8]),
        state=RunState(row[9]),
        reason=row[10],
        settings=tuple(settings_of(row[11]).items()),
        choices=choices_of(row[12]),
        values=tuple(values),
    )


def _values(connection: Connection, ids: Sequence[int]) -> dict[int, list[HistoryValue]]:
    found: dict[int, list[HistoryValue]] = {}
    for row in connection.execute(results_of(connection, ids)):
        found.setdefault(row[0], []).append(HistoryValue(cell_of(*row[1:6]), *row[6:]))
    return found
