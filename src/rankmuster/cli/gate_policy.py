"""A cluster's CommunicationPolicy as the runbook that the checklist looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankmuster.gate.deployed import Object, Workload
    from rankmuster.gate.facts import Runbook
    from rankmuster.kube.crd.policy import PolicySpec
    from rankmuster.model.release import Proof
    from rankmuster.model.unknown import Unknown

KIND = "CommunicationPolicy"


def runbook_of_policy(data: bytes, workload: Workload, proof: Proof) -> Runbook | Unknown | None:
    """None where the file holds no policy. `workload`: what it has to govern."""
    from rankmuster.environment.read_file import documents_of
    from rankmuster.model.unknown import Unknown

    documents, damage = documents_of(data.decode("utf-8", "replace"))
    found = [one for one in documents if isinstance(one, dict) and one.get("kind") == KIND]
    if not found:
        return None
    if damage:
        return Unknown(f"{proof.name} is no sound YAML throughout: {damage}")
    if len(found) > 1:
        return Unknown(f"{proof.name} holds {len(found)} policies: name a file with the one that governs the release")
    return _runbook(found[0], workload, proof)


def _runbook(found: dict[str, Any], workload: Workload, proof: Proof) -> Runbook | Unknown:
    from rankmuster.gate.facts import Runbook
    from rankmuster.incident.budget import Budget
    from rankmuster.kube.controller.policy_config import PolicyRefused, gateways_that_ignore_it, read_policy
    from rankmuster.model.unknown import Unknown

    try:
        spec = read_policy(found.get("spec"))
    except PolicyRefused as error:
        return Unknown(f"{proof.name}: {error}")
    owners = {id(one.owner.document): one.owner for one in workload.deployed if one.owner is not None}
    for owner in owners.values():
        if not _governs(found, spec, owner):
            return Unknown(
                f"{proof.name} does not govern {owner.kind} {owner.name}: its selector or namespace is another"
            )
    deaf = gateways_that_ignore_it(spec)
    paused = ("spec.paused: no group is ended and no node fenced",) if spec.paused else ()
    traffic = spec.traffic.readiness_gate or spec.traffic.pool_label is not None
    return Runbook(
        instance=", ".join(one.name for one in owners.values()) or workload.source,
        budget=Budget(dict(spec.deadlines.steps), spec.deadlines.total),
        # groups, nodes and tests are the controller's own: a policy need not configure them
        has=frozenset({"group", "node", "retest", *(("traffic",) if traffic else ())}),
        acts=frozenset(spec.enable),
        probe=spec.probe is not None,
        incident_profile=spec.incident_profile,
        proof=proof,
        objections=(*((f"spec.traffic: {deaf}",) if deaf else ()), *paused),
    )


def _governs(found: dict[str, Any], spec: PolicySpec, owner: Object) -> bool:
    metadata = found.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    if namespace and owner.namespace and namespace != owner.namespace:
        return False
    labels = owner.labels
    if any(labels.get(key) != value for key, value in spec.selector.match_labels.items()):
        return False
    for one in spec.selector.match_expressions:
        value = labels.get(one.key)
        fits = {
            "In": value in one.values,
            "NotIn": value not in one.values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not fits[one.operator]:
            return False
    return not spec.kinds or owner.kind in {kind.value for kind in spec.kinds}
