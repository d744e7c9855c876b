"""All that the runbook acts through for one instance, and which of it may act.

An actuator's role is what `enable` of the settings lists. The name in the journal is the actuator's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.incident.actuators import Evidence, Group, Node, Probe, Retest, Traffic


class ToolRole(str, Enum):
    """What can be enabled. Evidence and probe only read, and always act."""

    TRAFFIC = "traffic"
    GROUP = "group"
    NODE = "node"
    RETEST = "retest"


@dataclass(frozen=True, slots=True)
class Tools:
    """All actuators of one instance. `enabled`: values of `ToolRole`; a role that is not in it observes."""

    traffic: tuple[Traffic, ...] = ()
    group: Group | None = None
    nodes: tuple[Node, ...] = ()
    retest: Retest | None = None
    evidence: Evidence | None = None
    probe: Probe | None = None
    enabled: frozenset[str] = frozenset()

    def acts(self, role: ToolRole) -> bool:
        """Whether actuators of that role may act; else they only say what they would do."""
        return role.value in self.enabled
