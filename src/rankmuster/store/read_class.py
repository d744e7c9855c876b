"""What an admission decision reads: the baseline of one class, and the classes of its kin. Must stay fast.

A class may have a million results; a baseline needs some hundred runs (`store/pick.py`), each of which is found to be
as it was stored, or nothing is decided (`store/read_results.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Integer, and_, cast, func, select

from rankmuster.baseline.window import windows
from rankmuster.model.benchmark import Cell, RunState
from rankmuster.model.history import CellHistory, ChangePoint, ClassHistory, KinClass
from rankmuster.store.damage import stored
from rankmuster.store.pick import count_runs, pick_runs
from rankmuster.store.plain import CELL_NAMES, cell_of, choices_of, settings_of
from rankmuster.store.query import among
from rankmuster.store.read_results import read_heads, read_results
from rankmuster.store.schema import (
    cell_table,
    choices_table,
    class_table,
    profile_table,
    run_table,
)

DEFAULT_RUNS = 500
"""Runs of a baseline. The 1 % quantile of a class needs some hundred; 500 runs of 33 sizes are read in 0.1 s
(benchmarks/history_bench.py)."""

OUTSIDE = "outside_baseline"
"""What `ClassHistory.kept_out` calls COMPLETE runs that change points keep out."""


def read_class(
    connection: Connection,
    class_hash: str,
    profile: str,
    points: tuple[ChangePoint, ...],
    *,
    limit: int,
    until: float | None,
    include_after_open: bool,
    runs_per_node: int,
) -> ClassHistory:
    """See `History.class_history`. `points`: the change points of this class and profile."""
    class_id = connection.execute(select(class_table.c.id).where(class_table.c.class_hash == class_hash)).scalar()
    profile_id = connection.execute(select(profile_table.c.id).where(profile_table.c.key == profile)).scalar()
    if class_id is None or profile_id is None:
        return ClassHistory(class_hash, profile, (), np.zeros(0), (), {}, points, 0, {})
    of_class = and_(run_table.c.class_id == class_id, run_table.c.profile_id == profile_id)
    states = _states(connection, of_class, until)
    common, own = windows(points, until=until, include_after_open=include_after_open)
    cells = _cells(connection)
    views = {common: [number for number, cell in cells.items() if cell not in own]}
    for number, cell in cells.items():
        if cell in own:
            views.setdefault(own[cell], []).append(number)
    picked = {view: pick_runs(connection, of_class, view, limit, runs_per_node) for view in views}
    ids = np.unique(np.concatenate([np.asarray(found, dtype=np.int64) for found in picked.values()]))
    heads = read_heads(connection, ids.tolist())
    results = read_results(connection, heads, cells, class_hash, profile)
    rows = [
        results if len(views) == 1 else results[np.isin(results[:, 1], picked[view]) & np.isin(results[:, 0], numbers)]
        for view, numbers in views.items()
    ]
    complete = states.pop(RunState.COMPLETE.value, 0)
    total = (
        complete
        if common.begin == -math.inf and common.end in (math.inf, until) and not common.gaps
        else count_runs(connection, of_class, common)
    )
    if complete > total:
        states[OUTSIDE] = complete - total
    return ClassHistory(
        class_hash,
        profile,
        tuple(head.node_hash for head in heads),
        np.array([head.started_at for head in heads], dtype=np.float64),
        tuple(head.record for head in heads),
        _columns(np.concatenate(rows), cells, [head.number for head in heads]),
        points,
        total,
        states,
        _choices(connection, [head.choices for head in heads]),
    )


def read_kin(connection: Connection, kin_hash: str, profile: str) -> tuple[KinClass, ...]:
    """See `History.kin_classes`."""
    of_kin = select(class_table.c.id).where(class_table.c.kin_hash == kin_hash)
    of_profile = select(profile_table.c.id).where(profile_table.c.key == profile).scalar_subquery()
    by_node = (  # no count of distinct nodes, for which PostgreSQL would sort all runs
        select(run_table.c.class_id, func.count().label("runs"))
        .where(run_table.c.class_id.in_(of_kin), run_table.c.profile_id == of_profile)
        .where(run_table.c.state == RunState.COMPLETE.value)
        .group_by(run_table.c.class_id, run_table.c.node_id)
        .subquery()
    )
    query = (
        select(class_table.c.class_hash, class_table.c.settings, cast(func.sum(by_node.c.runs), Integer), func.count())
        .join(by_node, by_node.c.class_id == class_table.c.id)
        .group_by(class_table.c.class_hash, class_table.c.settings)
    )
    with stored("a class"):
        found = [KinClass(row[0], settings_of(row[1]), row[2], row[3]) for row in connection.execute(query)]
    return tuple(sorted(found, key=lambda kin: (-kin.runs, kin.class_hash)))


def _states(connection: Connection, of_class: ColumnElement[bool], until: float | None) -> dict[str, int]:
    query = select(run_table.c.state, func.count()).where(of_class).group_by(run_table.c.state)
    if until is not None:
        query = query.where(run_table.c.started_at < until)
    with stored("a run's state"):
        return {RunState(row[0]).value: row[1] for row in connection.execute(query)}


def _columns(rows: NDArray[np.float64], cells: dict[int, Cell], ids: Sequence[int]) -> dict[Cell, CellHistory]:
    place = np.empty(len(ids), dtype=np.int64)
    numbers = np.asarray(ids, dtype=np.int64)
    order = np.argsort(numbers)
    runs = order[np.searchsorted(numbers, rows[:, 1].astype(np.int64), sorter=order)] if len(rows) else place[:0]
    by_cell = np.lexsort((rows[:, 2], runs, rows[:, 0]))
    rows, runs = rows[by_cell], runs[by_cell]
    which, starts = np.unique(rows[:, 0], return_index=True)
    stops = [*starts[1:], len(rows)][: len(starts)]
    found = {}
    for number, start, stop in zip(which, starts, stops, strict=True):
        cell, part = cells[int(number)], rows[start:stop]
        found[cell] = CellHistory(cell, runs[start:stop], *(np.ascontiguousarray(part[:, at]) for at in (3, 4, 5, 6)))
    return {cell: found[cell] for cell in sorted(found)}


def _cells(connection: Connection) -> dict[int, Cell]:
    columns = [cell_table.c[name] for name in ("id", *CELL_NAMES)]
    with stored("an operation and its size"):
        return {int(row[0]): cell_of(*row[1:]) for row in connection.execute(select(*columns))}


def _choices(connection: Connection, ids: Sequence[int]) -> tuple[Any, ...]:
    query = select(choices_table.c.id, choices_table.c.choices)
    texts = connection.execute(query.where(among(connection, choices_table.c.id, sorted(set(ids)))))
    with stored("what NCCL chose"):
        known = {number: choices_of(text) for number, text in texts}
        return tuple(known[number] for number in ids)
