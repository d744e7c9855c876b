"""Judges a node's runs against the distribution of its own kind, each operation and size regime apart.

Two statistics per group of cells (`regimes.Group`): the level, the median over sizes of the log ratio to the class,
which one odd size does not move; and each size alone, which a single bad size does. Their limits share one budget of
false alarms for the whole admission, so that more operations do not mean more healthy nodes refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.baseline.floors import FloorInput
from rankmuster.baseline.judge_floor import judge_by_floor
from rankmuster.baseline.judge_group import Budget, judge_group
from rankmuster.baseline.measured import Measured, measured
from rankmuster.baseline.reference import ClassReference
from rankmuster.baseline.regimes import Group
from rankmuster.baseline.thresholds import JudgeSettings
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.history import ClassHistory
from rankmuster.model.judgement import Regime, RegimeJudgement

DEFAULTS = JudgeSettings()


def judge(
    runs: Sequence[BenchmarkRun],
    history: ClassHistory | None,
    *,
    settings: JudgeSettings = DEFAULTS,
    floor: FloorInput | None = None,
) -> tuple[RegimeJudgement, ...]:
    """One judgement per operation, launch, placement and regime that the runs have anything of.

    `runs`: of one node (or set of nodes) and profile, each of a process of its own: the first alone, then with those
    that BORDERLINE asked for. They are judged whatever their state: that a run with wrong values refuses, and that a
    contended one is measured again, is the caller's to say. `history`: of the node's class, None where there is none.
    `floor`: the node's hardware, for groups with too little history; None leaves those without a floor.

    Raises nothing on results without any usable measurement: there is then nothing to judge, an empty tuple.
    """
    reference = None if history is None else ClassReference(history, settings)
    return judge_by(runs, reference, settings=settings, floor=floor)


def judge_by(
    runs: Sequence[BenchmarkRun],
    reference: ClassReference | None,
    *,
    settings: JudgeSettings = DEFAULTS,
    floor: FloorInput | None = None,
) -> tuple[RegimeJudgement, ...]:
    """`judge` with a history made ready once for many nodes."""
    groups = measured(runs)
    budget = _budget(groups, settings)
    return tuple(_one(group, found, reference, budget[group], settings, floor) for group, found in groups.items())


def _one(
    group: Group,
    found: Measured,
    reference: ClassReference | None,
    budget: Budget,
    settings: JudgeSettings,
    floor: FloorInput | None,
) -> RegimeJudgement:
    known = None if reference is None else reference.of(group, found.cells)
    # Fewer than half of the sizes with a history: the level would be of others than the class's.
    if known is None or 2 * len(known.cells) < len(found.cells):
        runs, nodes = (0, 0) if reference is None else reference.runs(group)
        return judge_by_floor(group, found, floor, runs=runs, nodes=nodes, runs_min=settings.runs_min)
    return judge_group(group, found, known, budget, settings)


def _budget(groups: dict[Group, Measured], settings: JudgeSettings) -> dict[Group, Budget]:
    """The admission's false alarms, spread evenly over the groups that may refuse (Bonferroni: they may depend on each
    other as they like); those of latency, which refuse nobody, have a budget of their own."""
    latency = sum(group.regime is Regime.LATENCY for group in groups)
    refusing = len(groups) - latency
    shares = {}
    for group in groups:
        if group.regime is Regime.LATENCY:
            total = settings.latency_budget / latency
        else:
            total = settings.false_alarm_budget / refusing
        shares[group] = Budget(
            total=total,
            outright=total * settings.outright_share,
            retested=total * (1 - settings.outright_share),
        )
    return shares
