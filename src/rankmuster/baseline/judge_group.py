"""One group of cells against its reference: where the node stands, and in words why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log

import numpy as np

from rankmuster.baseline.judge_words import below_words, level_words, method_words
from rankmuster.baseline.measured import Measured
from rankmuster.baseline.reference import CellReference, GroupReference
from rankmuster.baseline.regimes import Group
from rankmuster.baseline.thresholds import LATENCY_QUANTILE, SIZE_SHARE, JudgeSettings
from rankmuster.model.hardware import Floats
from rankmuster.model.judgement import CellJudgement, Regime, RegimeJudgement, Standing
from rankmuster.model.sizes_text import size_text


@dataclass(frozen=True, slots=True)
class Budget:
    """False alarms that one group may make per admission: refused by one process, and refused after re-tests."""

    total: float
    outright: float
    retested: float


@dataclass(frozen=True, slots=True)
class Limits:
    """How far below the class, as logarithms of a ratio, a value is refused at once and is measured again."""

    refuse: float
    retest: float


def judge_group(
    group: Group, found: Measured, known: GroupReference, budget: Budget, settings: JudgeSettings
) -> RegimeJudgement:
    """Below the refusal limit in one process, or below the re-test limit over `processes_to_decide`: BELOW."""
    rules = settings.regimes[group.regime]
    latency = group.regime is Regime.LATENCY
    columns = [index for index, cell in enumerate(found.cells) if cell in known.cells]
    references = [known.cells[found.cells[index]] for index in columns]
    score = -np.log(found.time_us[:, columns])
    away = _away(score, references)
    # A latency is judged by the faster of its processes: of two healthy modes each process has either.
    pooled = _faster(away) if latency else _median(away, axis=0)
    levels = _median(away, axis=1) - known.level.center
    level = float(np.nanmedian(pooled)) - known.level.center if latency else float(np.nanmedian(levels))
    shares = 1 - SIZE_SHARE, SIZE_SHARE / len(references)
    level_limits = _limits(known.level.limit, budget, shares[0], rules.level_refuse, rules.level_retest, known.unseen)
    size_limits = [
        _limits(reference.spread.limit, budget, shares[1], rules.size_refuse, rules.size_retest, reference.unseen)
        for reference in references
    ]
    wanted = settings.latency_processes if latency else settings.processes_to_decide
    decided = found.processes >= wanted
    standing = _stand(level, levels if not latency else np.array([level]), level_limits, decided)
    worst, sizes = None, Standing.WITHIN
    for column, limits in enumerate(size_limits):
        own = _stand(float(pooled[column]), away[:, column] if not latency else pooled[[column]], limits, decided)
        if _RANK[own] > _RANK[sizes]:
            worst, sizes = column, own
    if standing is Standing.WITHIN and sizes is Standing.WITHIN and level > rules.above:
        standing = Standing.ABOVE
    elif _RANK[sizes] > _RANK[standing]:
        standing = sizes
    else:
        worst = None
    cells = _cells(found, columns, references, size_limits, decided, latency)
    limit = level_limits.retest if decided else level_limits.refuse
    if worst is None:
        reason = level_words(standing, level, limit, level_limits.retest, len(references), decided, cells)
    else:
        reason = below_words(standing, cells[columns[worst]], decided)
    if latency and found.processes < wanted and standing is not Standing.WITHIN:
        reason += f"; judged over {found.processes} of the {wanted} fresh processes that a latency takes"
    missing = [size_text(found.cells[i].size_bytes) for i in range(len(found.cells)) if i not in columns]
    if missing:
        reason += f"; not judged for want of history: {', '.join(missing)}"
    return RegimeJudgement(
        operation=group.operation,
        regime=group.regime,
        graph=group.graph,
        in_place=group.in_place,
        standing=standing,
        statistic=exp(level),
        refuse_below=exp(-limit),
        retest_below=None if decided else exp(-level_limits.retest),
        samples=known.level.runs,
        nodes=known.level.nodes,
        method=method_words(group, known, found.processes, decided, rules),
        false_alarm=budget.total,
        floor=None,
        can_refuse=not latency,
        reason=reason,
        cells=cells,
    )


_RANK = {Standing.WITHIN: 0, Standing.BORDERLINE: 1, Standing.BELOW: 2}


def _stand(pooled: float, each: Floats, limits: Limits, decided: bool) -> Standing:
    if decided:
        return Standing.BELOW if pooled < -limits.retest else Standing.WITHIN
    if pooled < -limits.refuse:
        return Standing.BELOW
    # One process that was low is not made up for by another that was high: a third decides.
    low = pooled < -limits.retest or bool(np.any(each < -limits.retest))
    return Standing.BORDERLINE if low else Standing.WITHIN


def _limits(
    limit: Callable[[float], float], budget: Budget, share: float, refuse: float, retest: float, unseen: float
) -> Limits:
    again = max(retest, limit(budget.retested * share)) + unseen
    return Limits(max(refuse + unseen, again, limit(budget.outright * share) + unseen), again)


def _away(score: Floats, references: list[CellReference]) -> Floats:
    """Distance out of the healthy band, of shape (processes, cells)."""
    away = np.empty_like(score)
    for column, reference in enumerate(references):
        away[:, column] = reference.modes.band(score[:, column]) - reference.spread.center
    return away


def _median(values: Floats, axis: int) -> Floats:
    if values.shape[axis] == 1:
        return values[0] if axis == 0 else values[:, 0]
    if np.isfinite(values).all():
        return np.asarray(np.median(values, axis=axis))
    have = np.isfinite(values).any(axis=axis)
    result = np.full(have.shape, np.nan)
    result[have] = np.nanmedian(values[:, have] if axis == 0 else values[have], axis=axis)
    return result


def _faster(score: Floats) -> Floats:
    """Lower quartile of times, of shape (cells,): the second fastest of five processes, the only one of one."""
    return score[0] if len(score) == 1 else np.asarray(np.nanquantile(score, 1 - LATENCY_QUANTILE, axis=0))


def _cells(
    found: Measured,
    columns: list[int],
    references: list[CellReference],
    limits: list[Limits],
    decided: bool,
    latency: bool,
) -> tuple[CellJudgement, ...]:
    """Every cell that was measured; those without a history with their value alone."""
    judged = {index: at for at, index in enumerate(columns)}
    values = np.exp(-_faster(-np.log(found.time_us))) if latency else _median(found.time_us, axis=0)
    cells = []
    for index, cell in enumerate(found.cells):
        time_us = float(values[index])
        at = judged.get(index)
        if at is None:
            shown = time_us if latency else float(_median(found.busbw, axis=0)[index])
            cells.append(CellJudgement(cell, _unit(latency), shown, None, None, None, 0))
            continue
        reference, own = references[at], limits[at]
        score = -log(time_us)
        center = reference.modes.nearest(score) + reference.spread.center
        work = float(np.nanmedian(found.busbw[:, index] * found.time_us[:, index]))
        slowest = reference.modes.centers[0] + reference.spread.center
        limit = slowest - (own.retest if decided else own.refuse)
        cells.append(
            CellJudgement(
                cell=cell,
                unit=_unit(latency),
                value=_shown(score, work, latency),
                center=_shown(center, work, latency),
                limit=_shown(limit, work, latency),
                ratio=exp(score - center),
                samples=reference.spread.runs,
            )
        )
    return tuple(cells)


def _unit(latency: bool) -> str:
    return "us" if latency else "GB/s"


def _shown(score: float, work: float, latency: bool) -> float:
    """A score as microseconds, or as bus bandwidth. `work`: busbw x time as the node's own tool has them."""
    return exp(-score) if latency else work * exp(score)
