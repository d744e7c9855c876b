"""Whether a node needs a NodeAdmission of its own now, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.adapters.kube.fields import stamp
from rankmuster.kube.admission import say
from rankmuster.kube.admission.names import admission_name
from rankmuster.kube.admission.seen import Admission, tainted
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.kube.admission.watched import changes, told, watched
from rankmuster.kube.crd.admission import AdmissionStatus, Phase
from rankmuster.kube.crd.base import Condition
from rankmuster.model.kube import NodeView

TRUSTED = "it served before the first admission here: trusted, nothing was measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A NodeAdmission to create. `after`: UID of the one that it follows. `trusted`: the node is let in without a test;
    a record of the history that passed says more than that."""

    name: str
    node: str
    node_uid: str
    watched: str
    facts: Mapping[str, str]
    trigger: str
    after: str = ""
    served: bool = False
    trusted: bool = False


def begin(
    node: NodeView,
    current: Admission | None,
    facts: Mapping[str, str],
    settings: AdmissionSettings,
    *,
    first: float | None,
    unsettled: str = "",
) -> Begun | None:
    """None where the admission that it has is of the node as it is. `current`: its youngest that is not outdated.
    `first`: when the first NodeAdmission of the cluster was made, unix seconds; None where there is none yet."""
    if node.deleting or (node.gpus == 0 and not tainted(node)):
        return None
    if current is not None and current.node_uid == node.uid:
        found = changes(current.facts, facts)
        if not found or unsettled:
            return None
        served = current.served or current.admitted
        return _made(node, facts, told(found), after=current.uid, served=served)
    if current is not None:
        return _made(node, facts, "another node has this name now", after=current.uid)
    existing = first is None or node.created <= first
    if tainted(node):
        return _made(node, facts, "it came with the startup taint")
    if not existing:
        return _made(node, facts, "it is new here")
    if settings.existing == "test":
        return _made(node, facts, "it served before the first admission here", served=True)
    return _made(node, facts, TRUSTED, served=True, trusted=True)


def trusted_status(generation: int, why: str, now: float, record: str | None = None) -> AdmissionStatus:
    """Of a node that nobody tested: provisional, or passed where a stored record (`record`: its seal) says so."""
    at = stamp(now)
    reason = "TrustedOnFirstSight" if record is None else "PassedBefore"
    conditions = [
        ("Admitted", "True", reason, why),
        ("Tainted", "False", "NeverSet", "new pods may come"),
        ("Tested", "False" if record is None else "True", reason, why),
    ]
    return AdmissionStatus(
        observed_generation=generation,
        phase=Phase.PROVISIONAL if record is None else Phase.PASSED,
        decision="provisional" if record is None else "pass",
        record=record,
        reasons=say.reasons((why,)),
        ended_at=at,
        conditions=tuple(
            Condition(type=type_, status=status, reason=word, message=message, last_transition_time=at)  # type: ignore[arg-type]
            for type_, status, word, message in conditions
        ),
    )


def _made(
    node: NodeView,
    facts: Mapping[str, str],
    trigger: str,
    *,
    after: str = "",
    served: bool = False,
    trusted: bool = False,
) -> Begun:
    named = watched(facts)
    return Begun(
        name=admission_name(node.name, node.uid, named, after),
        node=node.name,
        node_uid=node.uid,
        watched=named,
        facts=dict(facts),
        trigger=trigger,
        after=after,
        served=served,
        trusted=trusted,
    )
