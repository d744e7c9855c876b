"""Which runs of a class are read as its baseline: among the newest, spread over the nodes.

The newest run of every node, then the second newest of every node, and so on: a class is its nodes, and one that is
measured every hour must not become all of it. Runs that started at one moment are in the order of their records, so
that the same runs are the same baseline in whatever order they were stored.
"""

from __future__ import annotations

import math

from sqlalchemy import ColumnElement, Connection, and_, func, not_, select

from rankmuster.baseline.window import Window
from rankmuster.model.benchmark import RunState
from rankmuster.store.schema import run_table

RUNS_PER_NODE = 100
"""Runs that one node may have among them, so that a class of two nodes is not the history of the busier one; half a
year of a run every other day."""

NEWEST_RUNS = 20_000
"""Runs among which those of a baseline are sought: three weeks of a run a day of 1,000 nodes. A bound, so that a
decision does not take longer with every year."""


def pick_runs(
    connection: Connection, of_class: ColumnElement[bool], view: Window, limit: int, runs_per_node: int
) -> list[int]:
    """Numbers of at most `limit` COMPLETE runs within the window, of no node more than `runs_per_node`."""
    newest = (
        select(run_table.c.id, run_table.c.started_at, run_table.c.record, run_table.c.node_id)
        .where(of_class, *_within(view))
        .order_by(run_table.c.started_at.desc(), run_table.c.record.desc())
        .limit(max(limit, NEWEST_RUNS))
        .subquery()
    )
    order = (newest.c.started_at.desc(), newest.c.record.desc())
    turn = func.row_number().over(partition_by=newest.c.node_id, order_by=order).label("turn")
    ranked = select(newest.c.id, newest.c.started_at, newest.c.record, turn).subquery()
    query = (
        select(ranked.c.id)
        .where(ranked.c.turn <= runs_per_node)
        .order_by(ranked.c.turn, ranked.c.started_at.desc(), ranked.c.record.desc())
        .limit(limit)
    )
    return [row[0] for row in connection.execute(query)]


def count_runs(connection: Connection, of_class: ColumnElement[bool], view: Window) -> int:
    """COMPLETE runs within the window."""
    query = select(func.count()).select_from(run_table).where(of_class, *_within(view))
    return connection.execute(query).scalar() or 0


def _within(view: Window) -> list[ColumnElement[bool]]:
    started = run_table.c.started_at
    parts: list[ColumnElement[bool]] = [run_table.c.state == RunState.COMPLETE.value]
    if view.begin != -math.inf:
        parts.append(started >= view.begin)
    if view.end != math.inf:
        parts.append(started < view.end)
    return parts + [not_(and_(started >= start, started < stop)) for start, stop in view.gaps]
