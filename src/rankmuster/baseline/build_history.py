"""Columns of a class's history from its runs, as the store's own reader makes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from rankmuster.model.benchmark import Cell, HistoryRun, RunState
from rankmuster.model.history import CellHistory, ChangePoint, ClassHistory


def build_history(
    runs: Iterable[HistoryRun],
    *,
    class_hash: str | None = None,
    profile: str | None = None,
    change_points: Sequence[ChangePoint] = (),
) -> ClassHistory:
    """COMPLETE runs of one class and profile, oldest first; the others are counted in `kept_out`.

    `class_hash`, `profile`: of these alone; None takes those of the first run. Change points are attached as they
    are: which runs belong to the baseline is the caller's choice.
    """
    given = sorted(runs, key=lambda run: (run.started_at, run.record))
    if given:
        class_hash = given[0].class_hash if class_hash is None else class_hash
        profile = given[0].profile if profile is None else profile
    mine = [run for run in given if (run.class_hash, run.profile) == (class_hash, profile)]
    complete = [run for run in mine if run.state is RunState.COMPLETE]
    rows: dict[Cell, list[tuple[int, float, float, float, float]]] = {}
    for index, run in enumerate(complete):
        for value in run.values:
            least, ranks = (np.nan if it is None else it for it in (value.min_us, value.rank_spread_percent))
            rows.setdefault(value.cell, []).append((index, value.busbw, value.time_us, least, ranks))
    cells = {}
    for cell, found in rows.items():
        columns = np.array(found, dtype=np.float64).T
        cells[cell] = CellHistory(cell, columns[0].astype(np.int64), *columns[1:])
    return ClassHistory(
        class_hash=class_hash or "",
        profile=profile or "",
        nodes=tuple(run.node_hash for run in complete),
        started_at=np.array([run.started_at for run in complete], dtype=np.float64),
        records=tuple(run.record for run in complete),
        cells=cells,
        change_points=tuple(change_points),
        total=len(complete),
        kept_out=dict(Counter(run.state.value for run in mine if run.state is not RunState.COMPLETE)),
        choices=tuple(run.choices for run in complete),
    )
