"""What is refused before anything is touched."""

from __future__ import annotations

from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.tools import ToolRole, Tools


class Refused(Exception):
    """Nothing was touched; the message says why, and what to do."""


class Taken(Exception):
    """Another runner works on this instance; nothing was done."""


def must_be_ready(config: IncidentConfig, instance: str, tools: Tools) -> None:
    """What could never work. Raises Refused."""
    there = {
        ToolRole.TRAFFIC: bool(tools.traffic),
        ToolRole.GROUP: tools.group is not None,
        ToolRole.NODE: bool(tools.nodes),
        ToolRole.RETEST: tools.retest is not None,
    }
    for role, exists in there.items():
        if not exists and f"{instance}/{role.value}" in config.enable:
            raise Refused(
                f"{instance}/{role.value} is enabled and no such actuator is configured: add one under "
                f"instances.{instance}, or take it out of `enable`"
            )
    for step, seconds in config.budget.items():
        if not seconds > 0:
            raise Refused(f"the budget gives {step.value} {seconds:g} s: a step needs some time")
    if config.total_seconds is not None and not config.total_seconds > 0:
        raise Refused(f"total_seconds is {config.total_seconds:g}: a runbook needs some time")
