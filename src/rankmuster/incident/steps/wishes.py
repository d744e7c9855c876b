"""How an incarnation is to be started. Pure."""

from __future__ import annotations

from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.machine.state import Incident
from rankmuster.model.incident import StartWish, Step


def start_wish(config: IncidentConfig, incident: Incident) -> StartWish:
    """One incarnation with the incident logging profile where that was decided. The next one is steady again, also the
    one that a resumed incident starts."""
    decision = incident.decision
    suspect = None
    had = any(one.step is Step.START and one.acted for one in incident.earlier)
    if decision is not None and decision.incident_profile and config.incident_profile and not had:
        suspect = decision.subclass.value if decision.subclass is not None else decision.class_.value
    return StartWish(avoid=incident.avoid, suspect=suspect)
