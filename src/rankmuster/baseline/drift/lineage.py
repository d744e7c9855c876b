"""One node's results over time, through every class that it was in, as a history of its own.

A node that gets another driver is in another class from then on. Its own past goes on: the same GPUs and links,
measured with the same sizes. So what the change did to it shows in its own results before its new class has many.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from rankmuster.baseline.regimes import Group, group_of
from rankmuster.model.benchmark import Cell
from rankmuster.model.history import CellHistory, ClassHistory, Ints


class Lineages:
    """`histories`: of one profile, one for each class. Slices are made once for all nodes."""

    def __init__(self, histories: Sequence[ClassHistory]) -> None:
        self._histories = tuple(histories)
        self._rows = [_by_node(one.nodes) for one in histories]
        self._cells = [
            {cell: _by_node([one.nodes[run] for run in column.run]) for cell, column in one.cells.items()}
            for one in histories
        ]

    def nodes(self) -> tuple[str, ...]:
        """All that were measured, sorted."""
        return tuple(sorted({node for rows in self._rows for node in rows}))

    def of(self, node: str, lanes: Collection[Group] | None = None) -> ClassHistory:
        """Its runs of all classes, oldest first; `class_hash` is that of its newest run. Empty for one not measured.

        `lanes`: only cells of these.
        """
        parts = [
            (history, rows[node], cells)
            for history, rows, cells in zip(self._histories, self._rows, self._cells, strict=True)
            if node in rows
        ]
        if not parts:
            return ClassHistory("", "", (), np.empty(0), (), {}, (), 0, {})
        time = np.concatenate([history.started_at[rows] for history, rows, _ in parts])
        order = np.argsort(time, kind="stable")
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        columns: dict[Cell, list[CellHistory]] = {}
        offset = 0
        for history, rows, cells in parts:
            place = dict(zip(rows.tolist(), position[offset : offset + len(rows)].tolist(), strict=True))
            offset += len(rows)
            for cell, column in history.cells.items():
                mine = cells[cell].get(node)
                if mine is not None and (lanes is None or group_of(cell) in lanes):
                    columns.setdefault(cell, []).append(_rows_of(column, mine, place))
        records = [history.records[row] for history, rows, _ in parts for row in rows]
        newest = max(parts, key=lambda part: float(part[0].started_at[part[1]].max()))[0]
        return ClassHistory(
            class_hash=newest.class_hash,
            profile=newest.profile,
            nodes=(node,) * len(order),
            started_at=time[order],
            records=tuple(records[index] for index in order),
            cells={cell: _joined(found) for cell, found in columns.items()},
            change_points=(),
            total=len(order),
            kept_out={},
        )


def _by_node(nodes: Sequence[str]) -> dict[str, Ints]:
    found: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        found.setdefault(node, []).append(index)
    return {node: np.array(rows, dtype=np.int64) for node, rows in found.items()}


def _rows_of(column: CellHistory, rows: Ints, place: dict[int, int]) -> CellHistory:
    spread = column.rank_spread_percent
    return CellHistory(
        cell=column.cell,
        run=np.array([place[int(run)] for run in column.run[rows]], dtype=np.int64),
        busbw=column.busbw[rows],
        time_us=column.time_us[rows],
        min_us=column.min_us[rows],
        rank_spread_percent=None if spread is None else spread[rows],
    )


def _joined(parts: Sequence[CellHistory]) -> CellHistory:
    run = np.concatenate([part.run for part in parts])
    order = np.argsort(run, kind="stable")
    spreads = [
        np.full(len(part.run), np.nan) if part.rank_spread_percent is None else part.rank_spread_percent
        for part in parts
    ]
    return CellHistory(
        cell=parts[0].cell,
        run=run[order],
        busbw=np.concatenate([part.busbw for part in parts])[order],
        time_us=np.concatenate([part.time_us for part in parts])[order],
        min_us=np.concatenate([part.min_us for part in parts])[order],
        rank_spread_percent=np.concatenate(spreads)[order],
    )
