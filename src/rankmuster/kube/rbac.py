"""What our service accounts may do in a cluster: one table, from an actuator to the rules that it needs.

Manifests are written from it (`tools/write_kube_manifests.py`, `rankmuster kube crds --rbac`), and the tests hold it
against the verbs that the code asked for. What OBSERVE holds changes nothing but our own records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rankmuster.model.kube import DOMAIN

READ = ("get", "list", "watch")
APPLY = ("create", "patch")
"""Server-side apply is a patch, and a create where the object is not there."""


class Part(str, Enum):
    """One role each. OBSERVE: every installation. EXEC_EVIDENCE: where the settings have `exec_evidence`, which runs
    commands in other people's pods. INCIDENT_PROFILE: where policies have `incidentProfile`. The others: what acts, by
    the name that enables it, each bound only where it may.
    """

    OBSERVE = "observe"
    TRAFFIC = "traffic"
    GROUP = "group"
    NODE = "node"
    RETEST = "retest"
    ADMISSION = "admission"
    EXEC_EVIDENCE = "exec-evidence"
    INCIDENT_PROFILE = "incident-profile"


@dataclass(frozen=True, slots=True)
class Rule:
    """`resources`: with their subresource, `pods/status`. `why`: for who reviews it."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str

    def render(self) -> dict[str, Any]:
        return {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}

    def triples(self) -> frozenset[tuple[str, str, str]]:
        """(group, resource, verb), one by one."""
        return frozenset((self.group, resource, verb) for resource in self.resources for verb in self.verbs)


_HOLD = Rule(DOMAIN, ("communicationpolicies",), ("patch",), "the finalizer while an incident under it is open")

CLUSTER: dict[Part, tuple[Rule, ...]] = {
    Part.OBSERVE: (
        Rule("", ("pods", "nodes"), READ, "which instances there are, and where they run"),
        Rule("", ("namespaces",), ("list", "watch"), "which namespaces the settings mean"),
        Rule("apps", ("deployments", "statefulsets"), READ, "what makes pods"),
        Rule("apps", ("replicasets",), ("get",), "by which labels a Deployment knows its pods"),
        Rule("leaderworkerset.x-k8s.io", ("leaderworkersets",), READ, "what makes pods"),
        Rule("jobset.x-k8s.io", ("jobsets",), READ, "what makes pods"),
        Rule("batch", ("jobs",), ("get", "list"), "the Jobs of a JobSet, and those of admission"),
        Rule("discovery.k8s.io", ("endpointslices",), ("list",), "whether a Service has let go of a pod"),
        Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("list", "watch"), "which kinds there are by now"),
        Rule(DOMAIN, ("communicationpolicies",), READ, "what people ask for"),
        Rule(DOMAIN, ("communicationincidents",), (*READ, "create"), "one for each incarnation"),
        Rule(DOMAIN, ("nodeadmissions",), (*READ, *APPLY, "delete"), "one for each node as it is; the oldest go"),
        Rule(
            DOMAIN,
            ("communicationpolicies/status", "communicationincidents/status", "nodeadmissions/status"),
            ("patch",),
            "what we say of them",
        ),
        Rule("", ("events",), APPLY, "what we say on the objects of others"),
    ),
    Part.TRAFFIC: (
        _HOLD,
        Rule("", ("pods/status",), ("patch",), "the condition of our readiness gate"),
        Rule("", ("pods",), ("patch",), "the label by which an InferencePool selects"),
    ),
    Part.GROUP: (
        _HOLD,
        Rule("", ("pods",), ("delete",), "a group is ended by deleting its pods, each bound to its UID"),
        Rule("batch", ("jobs",), ("delete",), "that of a JobSet, its Jobs"),
    ),
    Part.NODE: (_HOLD, Rule("", ("nodes",), ("patch",), "taint, label and cordon with our owner annotation")),
    Part.RETEST: (_HOLD,),
    Part.ADMISSION: (Rule("", ("nodes",), ("patch",), "the taint of what is not admitted"),),
    Part.INCIDENT_PROFILE: (Rule("", ("configmaps",), APPLY, "variables of the next start alone"),),
    Part.EXEC_EVIDENCE: (
        Rule(
            "", ("pods/exec",), ("get", "create"), "evidence of pods without a sidecar; 1.35 asks for `create` as well"
        ),
        Rule("", ("pods/log",), ("get",), "their logs"),
    ),
}
"""Over the whole cluster: instances stand in the namespaces of those who run them."""

_TEST = (
    Rule("batch", ("jobs",), ("create", "delete"), "the test on a node"),
    Rule("", ("services",), ("create",), "by which the pods of a test of two nodes find each other"),
    Rule("", ("pods/log",), ("get",), "the result of the test"),
)

NAMESPACE: dict[Part, tuple[Rule, ...]] = {
    Part.OBSERVE: (Rule("coordination.k8s.io", ("leases",), ("get", "create", "patch"), "which replica leads"),),
    Part.RETEST: _TEST,
    Part.ADMISSION: _TEST,
}
"""Only in the namespace that the controller runs in: whoever may create Jobs everywhere may run anything anywhere."""

PARTS = tuple(Part)


def rules(parts: Iterable[Part]) -> frozenset[tuple[str, str, str]]:
    """All that these parts together may do, as (group, resource, verb), in whichever namespace."""
    held = [rule for part in parts for table in (CLUSTER, NAMESPACE) for rule in table.get(part, ())]
    return frozenset().union(*(rule.triples() for rule in held))
