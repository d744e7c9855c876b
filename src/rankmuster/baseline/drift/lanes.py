"""Results of many runs as one number per run and lane: how far it lies from what is usual, in logarithms.

A lane is one operation in one size regime, the judgement's `Group` (elsewhere a group is a process group). Sizes of one
regime rise and fall together, so that their mean says more than each alone; what one size usually takes cancels out,
so that runs with some other sizes compare.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankmuster.baseline.regimes import Group, group_of
from rankmuster.model.hardware import Floats
from rankmuster.model.history import ClassHistory, Ints
from rankmuster.model.judgement import Regime

Lane = Group
"""What is judged as one."""


def lane_words(lane: Lane) -> str:
    """`all_reduce at plateau sizes, from a CUDA graph`."""
    more = (", from a CUDA graph" if lane.graph else "") + (", in place" if lane.in_place else "")
    return f"{lane.operation.value} at {lane.regime.value} sizes{more}"


MOST_LOG = 50.0
"""Beyond it a ratio is no measurement, and an exponential may be no number."""


def relative(log: float) -> float:
    """The logarithm of a ratio as a relative change: -0.1 is a tenth slower."""
    return math.expm1(min(max(log, -MOST_LOG), MOST_LOG))


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """All runs of some classes of one profile, by time; every array of shape (runs,).

    `nodes` is sorted; `node`, `class_`: indexes into `nodes` and `classes`. `level[lane]`: logarithm of the bus
    bandwidth (of 1/time in the latency regime) relative to the median of each size, below 0 is worse, NaN where the run
    has none of its sizes.
    `spread[lane]`: percentage points between the slowest and the fastest rank, NaN where unknown.
    """

    profile: str
    nodes: tuple[str, ...]
    classes: tuple[str, ...]
    node: Ints
    class_: Ints
    time: Floats
    records: tuple[str, ...]
    level: dict[Lane, Floats]
    spread: dict[Lane, Floats]

    def of(self, node: str) -> Ints:
        """The rows of one node, oldest first."""
        place = bisect_left(self.nodes, node)
        if place == len(self.nodes) or self.nodes[place] != node:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.node == place)


def runs_of(histories: Sequence[ClassHistory]) -> Runs:
    """`histories`: of one profile, one for each class, or several."""
    offsets = np.cumsum([0, *(len(one.nodes) for one in histories)])
    names = [name for one in histories for name in one.nodes]
    nodes = tuple(sorted(set(names)))
    place = {name: index for index, name in enumerate(nodes)}
    time = np.concatenate([one.started_at for one in histories]) if histories else np.empty(0)
    order = np.argsort(time, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    level, spread = _columns(histories, [rank[offsets[i] : offsets[i + 1]] for i in range(len(histories))], len(order))
    records = [record for one in histories for record in one.records]
    return Runs(
        profile=histories[0].profile if histories else "",
        nodes=nodes,
        classes=tuple(one.class_hash for one in histories),
        node=np.array([place[name] for name in names], dtype=np.int64)[order],
        class_=np.repeat(np.arange(len(histories)), np.diff(offsets))[order],
        time=time[order],
        records=tuple(records[index] for index in order),
        level=level,
        spread=spread,
    )


def _columns(
    histories: Sequence[ClassHistory], rows: Sequence[Ints], count: int
) -> tuple[dict[Lane, Floats], dict[Lane, Floats]]:
    sums: dict[Lane, Floats] = {}
    counts: dict[Lane, Floats] = {}
    spreads: dict[Lane, Floats] = {}
    for cell in sorted({cell for one in histories for cell in one.cells}):
        lane = group_of(cell)
        values, spread = np.full(count, np.nan), np.full(count, np.nan)
        for one, place in zip(histories, rows, strict=True):
            column = one.cells.get(cell)
            if column is None:
                continue
            values[place[column.run]] = column.time_us if lane.regime is Regime.LATENCY else column.busbw
            if column.rank_spread_percent is not None:
                spread[place[column.run]] = column.rank_spread_percent
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(np.where(values > 0, values, np.nan)) * (-1 if lane.regime is Regime.LATENCY else 1)
        known = np.isfinite(logs)
        if known.any():
            logs = logs - np.median(logs[known])
            sums[lane] = sums.get(lane, np.zeros(count)) + np.where(known, logs, 0.0)
            counts[lane] = counts.get(lane, np.zeros(count)) + known
        if np.isfinite(spread).any():
            # the largest of a lane's sizes: one slow rank shows at some of them
            spreads[lane] = np.fmax(spreads.get(lane, np.full(count, np.nan)), spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = {lane: np.where(counts[lane] > 0, total / counts[lane], np.nan) for lane, total in sums.items()}
    return levels, spreads
