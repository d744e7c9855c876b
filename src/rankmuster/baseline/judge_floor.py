"""With too little history: a floor from the hardware's own limits, which passes nobody and refuses what is plain."""

from __future__ import annotations

import numpy as np

from rankmuster.baseline.floors import Floor, FloorInput, floor_of
from rankmuster.baseline.measured import Measured
from rankmuster.baseline.regimes import Group
from rankmuster.model.judgement import CellJudgement, Regime, RegimeJudgement, Standing
from rankmuster.model.sizes_text import size_text


def judge_by_floor(
    group: Group, found: Measured, given: FloorInput | None, *, runs: int, nodes: int, runs_min: int
) -> RegimeJudgement:
    """BELOW where a size of the plateau is under its floor in every process, else TOO_LITTLE: nothing was compared."""
    latency = group.regime is Regime.LATENCY
    floor, why_none = _floor(group, given)
    history = f"{runs} runs of history, {runs_min} are needed"
    below: list[CellJudgement] = []
    cells = []
    for index, cell in enumerate(found.cells):
        times = found.time_us[:, index]
        best = float(np.nanmin(times)) if np.isfinite(times).any() else float("nan")
        busbw = cell.size_bytes / best / 1e3 * cell.operation.bus_factor(given.ranks) if given else float("nan")
        shown = best if latency else busbw if given else float(np.nanmax(found.busbw[:, index]))
        limit = None if floor is None else floor.busbw(cell.size_bytes)
        judged = CellJudgement(cell, "us" if latency else "GB/s", shown, None, limit, None, 0)
        cells.append(judged)
        if limit is not None and busbw < limit:
            below.append(judged)
    if below:
        worst = min(below, key=lambda cell: cell.value / (cell.limit or 1.0))
        reason = (
            f"{worst.value:.4g} GB/s at {size_text(worst.cell.size_bytes)}, and its hardware should reach "
            f"{worst.limit:.4g} GB/s at the very least"
        )
    elif floor is not None:
        reason = f"above the floor of its hardware in all {len(cells)} sizes; {history}"
    else:
        reason = f"nothing to compare with: {history}; {why_none}"
    return RegimeJudgement(
        operation=group.operation,
        regime=group.regime,
        graph=group.graph,
        in_place=group.in_place,
        standing=Standing.BELOW if below else Standing.TOO_LITTLE,
        statistic=None,
        refuse_below=None,
        retest_below=None,
        samples=runs,
        nodes=nodes,
        method="floor from the hardware's limits" if floor is not None else "none",
        false_alarm=None,
        floor=None if floor is None else floor.source,
        can_refuse=not latency,
        reason=reason,
        cells=tuple(cells),
    )


def _floor(group: Group, given: FloorInput | None) -> tuple[Floor | None, str]:
    if group.regime is not Regime.PLATEAU:
        return None, "there is no floor for sizes that latency and protocols rule"
    if given is None:
        return None, "the node's hardware is not known, so there is no floor either"
    return floor_of(group.operation, given)
