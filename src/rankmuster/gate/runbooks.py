"""The settings of `rankmuster incident` as the checklist needs them, for the instance that is released."""

from __future__ import annotations

from rankmuster.gate.facts import Runbook
from rankmuster.incident.budget import Budget
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.config_objections import objections
from rankmuster.incident.config_read import ROLES
from rankmuster.model.release import Proof
from rankmuster.model.unknown import Unknown


def runbook_of(config: IncidentConfig, instance: str, proof: Proof) -> Runbook | Unknown:
    """`instance`: whose settings count. Unknown where they are not there."""
    one = config.instances.get(instance)
    if one is None:
        there = ", ".join(sorted(config.instances)[:6]) or "none"
        return Unknown(f"{proof.name} has no instance {instance}; there is {there} (name it with `instance`)")
    there_is = {"traffic": one.traffic, "group": one.group, "node": one.node, "retest": one.retest}
    acting = {role for role in ROLES if role in config.enable or f"{instance}/{role}" in config.enable}
    return Runbook(
        instance=instance,
        budget=Budget(dict(config.budget), config.total_seconds),
        has=frozenset(role for role, actuator in there_is.items() if actuator),
        acts=frozenset(acting),
        probe=one.probe is not None,
        incident_profile=config.incident_profile,
        proof=proof,
        objections=tuple(objections(config)),
        pairs=one.retest is not None and bool(one.retest.pairs and one.retest.good),
    )
