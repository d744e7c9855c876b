"""How often, and how many at once: budgets per instance, per node and per fleet, and when the circuit breaker opens.

A fabric that fails makes every instance ask for a rebuild at once: rebuilding all of them enlarges the fault (a storm
of starts on a broken network), and fencing their nodes takes the fleet down. So what many ask for at once nobody gets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rankmuster.model.checked import Check, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Part):
    """`instances`, `nodes`: how many the fleet has; 0: not known, then shares do not count, numbers do.

    The defaults: an instance that was rebuilt three times in an hour is not helped by a fourth; a share of 10 % of
    the nodes out at once is what a fleet is commonly run with as a reserve (a fifth of it is left for repairs of
    hardware); five instances at once within five minutes have one cause.
    """

    instances: Annotated[int, Check(ge=0)] = 0
    nodes: Annotated[int, Check(ge=0)] = 0
    rebuilds_per_instance: Annotated[int, Check(ge=1)] = 3
    instance_seconds: Annotated[float, Check(gt=0)] = 3600.0
    fences_per_node: Annotated[int, Check(ge=1)] = 2
    node_seconds: Annotated[float, Check(gt=0)] = 86_400.0
    rebuilds_at_once: Annotated[int, Check(ge=1)] = 4
    rebuilds_share: Annotated[float, Check(gt=0, le=1)] = 0.10
    fenced_at_once: Annotated[int, Check(ge=1)] = 4
    fenced_share: Annotated[float, Check(gt=0, le=1)] = 0.08
    breaker_instances: Annotated[int, Check(ge=2)] = 5
    breaker_share: Annotated[float, Check(gt=0, le=1)] = 0.10
    breaker_seconds: Annotated[float, Check(gt=0)] = 300.0
    breaker_quiet_seconds: Annotated[float, Check(gt=0)] = 900.0


DEFAULT = Limits()
