"""What happens to a simulated fleet, and how long things take there: all can be set, nothing of it is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.incident.limits import Limits
from rankmuster.model.incident import Step

HOUR = 3600.0

STEP_SECONDS: Mapping[Step, tuple[float, float]] = {
    Step.SHED: (0.05, 0.5),
    Step.STOP_TRAFFIC: (0.05, 0.5),
    Step.DRAIN: (1.0, 20.0),
    Step.EVIDENCE: (3.0, 20.0),
    Step.DIAGNOSE: (0.5, 5.0),
    Step.DECIDE: (0.05, 0.2),
    Step.FENCE: (0.1, 2.0),
    Step.CUT: (0.1, 0.5),
    Step.TERMINATE: (1.0, 12.0),
    Step.SHORT_RETEST: (20.0, 50.0),
    Step.START: (1.0, 5.0),
    Step.VERIFY: (60.0, 240.0),
    Step.RESTORE: (0.05, 0.5),
    Step.RETEST: (300.0, 900.0),
    Step.SETTLE: (0.1, 1.0),
}
"""Seconds that a step takes, drawn evenly between the two: gateways in milliseconds, an engine's loading in minutes."""

FLEET_LIMITS = Limits(instances=1000, nodes=2000, rebuilds_at_once=50, fenced_at_once=20)
"""Of a fleet of 1,000 instances: the default numbers are those of a small one, and four rebuilds at once would take
half a day for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A fabric that carries nothing from `at` for `seconds`, for this share of the instances. What stood on it stays
    stopped when it is well again; what is started on it meanwhile never serves."""

    at: float = 6 * HOUR
    seconds: float = 1800.0
    share: float = 1.0
    spread_seconds: float = 30.0  # until the last of them is seen to have stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDrift:
    """A class of nodes that gets slower together: a share of the instances is slow from `at` on, and each verdict names
    a node. `told_after`: when the drift report says that it is systematic; None: never."""

    at: float = 2 * HOUR
    share: float = 0.3
    spread_seconds: float = 1200.0
    told_after: float | None = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimPlan:
    """`days_between_faults`: of one instance, background. `fails`, `hangs`: of each action, per time.

    `resume_after`: seconds until an operator resumes an incident that was closed without success. `inconclusive`: share
    of stops that a verdict does not decide; they are rebuilt (`undecided: rebuild`).
    """

    instances: int = 1000
    nodes_each: int = 2
    hours: float = 14.0
    days_between_faults: float = 10.0
    outage: Outage | None = None
    drift: ClassDrift | None = None
    limits: Limits = FLEET_LIMITS
    fails: float = 0.02
    hangs: float = 0.01
    inconclusive: float = 0.10
    resume_after: float = 1800.0
    ask_limits_seconds: float = 60.0
    step_seconds: Mapping[Step, tuple[float, float]] = field(default_factory=lambda: STEP_SECONDS)
