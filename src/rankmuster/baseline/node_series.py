"""A node against its own past: whether and since when its results are of another level than they were.

The node's own history has no spread between nodes, so that it shows smaller losses than the class does; but a node
that was always slow looks steady here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import expm1

import numpy as np

from rankmuster.baseline.levels import levels_of
from rankmuster.baseline.steps import Step, StepRules, find_steps, largest_step
from rankmuster.model.benchmark import Operation
from rankmuster.model.history import ClassHistory
from rankmuster.model.judgement import Regime

FALSE_ALARM = 0.01
"""Steady nodes that show a step, per look, all groups together. Simulated: `docs/measured.md`."""

RULES: Mapping[Regime, StepRules] = {
    Regime.PLATEAU: StepRules(before=5, after=2, least=0.025, unit_sd=0.005),
    Regime.TRANSITION: StepRules(before=5, after=2, least=0.40, unit_sd=0.04),
    Regime.LATENCY: StepRules(before=5, after=2, least=0.40, unit_sd=0.05),
}
"""Five runs before, since fewer are no baseline; two after, since a single low run is a matter of a re-test. At large
sizes the least step is several times what a session of its own moves (0.5 %). At small ones a few runs may all be of
one healthy mode and the next of the other, 27 to 36 % apart (measured): less than that is no step."""


@dataclass(frozen=True, slots=True)
class NodeStep:
    """One operation and regime of one node: its newest level beside the one before.

    `change`: relative speed (-0.1: a tenth slower). `since`: unix seconds of the first run at the new level. `p_value`:
    how likely a steady node is to show as much anywhere in this group; `significant`: below this group's share of the
    false alarms, and large enough to matter. A step that is not significant is only the largest there is.
    """

    node: str
    operation: Operation
    regime: Regime
    graph: bool
    in_place: bool
    change: float
    since: float
    before_runs: int
    after_runs: int
    p_value: float
    significant: bool


def node_series(
    history: ClassHistory,
    node: str,
    *,
    false_alarm: float = FALSE_ALARM,
    rules: Mapping[Regime, StepRules] = RULES,
) -> tuple[NodeStep, ...]:
    """The newest step of `node` (a node hash of the history) per group; groups with too few runs of it are left out.

    `false_alarm`: steady nodes that show a significant step, all groups together.
    """
    mine = np.array([name == node for name in history.nodes], dtype=np.bool_)
    series = [(levels, mine[levels.run]) for levels in levels_of(history)]
    series = [(levels, use) for levels, use in series if use.any()]
    steps = []
    for levels, use in series:
        values, run = levels.level[use], levels.run[use]
        own = rules[levels.group.regime]
        alpha = false_alarm / len(series)
        found = find_steps(values, own, alpha)
        step: Step | None = found[-1] if found else largest_step(values, own)
        if step is None:
            continue
        steps.append(
            NodeStep(
                node=node,
                operation=levels.group.operation,
                regime=levels.group.regime,
                graph=levels.group.graph,
                in_place=levels.group.in_place,
                change=expm1(step.after - step.before),
                since=float(history.started_at[run[step.at]]),
                before_runs=step.at,
                after_runs=len(values) - step.at,
                p_value=step.p,
                significant=bool(found),
            )
        )
    return tuple(steps)
