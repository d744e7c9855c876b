"""A node against its own past: the level of its newest runs beside that of its earlier ones."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.benchmark import Operation
from rankmuster.model.history import ClassHistory
from rankmuster.model.judgement import Regime


@dataclass(frozen=True, slots=True)
class NodeStep:
    """One operation and regime of one node. `change`: relative (-0.1: a tenth slower). `since`: unix seconds of the
    first run at the new level. `false_alarm`: the rate at which steady nodes show as much, all regimes together."""

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


def node_series(history: ClassHistory, node: str, *, false_alarm: float = 0.01) -> tuple[NodeStep, ...]:
    """Being built."""
    raise NotImplementedError
