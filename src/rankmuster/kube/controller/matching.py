"""Which policy governs which workload. One that two policies match is governed by none: no guess is acted on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rankmuster.kube.crd.base import Selector
from rankmuster.kube.crd.policy import PolicySpec
from rankmuster.model.kube import WorkloadKind


@dataclass(frozen=True, slots=True)
class WorkloadKey:
    """One workload, by name: what replaces it under the same name is governed alike."""

    namespace: str
    kind: WorkloadKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PolicyView:
    """A policy as it is known. `spec` None: it cannot be used, and `problem` says why. `deleting_since`: unix seconds.
    `held`: it has our finalizer, since an incident under it is open."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: PolicySpec | None
    problem: str = ""
    deleting_since: float | None = None
    held: bool = False

    @property
    def deleting(self) -> bool:
        return self.deleting_since is not None

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Governed:
    """`by`: the one policy of each workload. `contested`: workloads that several match -> those policies' names.
    `ambiguous`: policies that are meant for one workload and match several -> those workloads."""

    by: Mapping[WorkloadKey, PolicyView] = field(default_factory=dict)
    contested: Mapping[WorkloadKey, tuple[str, ...]] = field(default_factory=dict)
    ambiguous: Mapping[tuple[str, str], tuple[WorkloadKey, ...]] = field(default_factory=dict)


def fits(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; an empty one selects nothing."""
    if not selector.match_labels and not selector.match_expressions:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for one in selector.match_expressions:
        there, value = one.key in labels, labels.get(one.key, "")
        if one.operator == "In" and (not there or value not in one.values):
            return False
        if one.operator == "NotIn" and there and value in one.values:
            return False
        if one.operator == "Exists" and not there:
            return False
        if one.operator == "DoesNotExist" and there:
            return False
    return True


def govern(policies: Iterable[PolicyView], workloads: Mapping[WorkloadKey, Mapping[str, str]]) -> Governed:
    """`workloads`: their labels. Policies that cannot be used contest nothing and govern nothing."""
    usable: dict[str, list[PolicyView]] = {}
    for policy in policies:
        if policy.spec is not None and (policy.held or not policy.deleting):
            usable.setdefault(policy.namespace, []).append(policy)
    by: dict[WorkloadKey, PolicyView] = {}
    contested: dict[WorkloadKey, tuple[str, ...]] = {}
    taken: dict[tuple[str, str], list[WorkloadKey]] = {}
    for key, labels in workloads.items():
        found = [one for one in usable.get(key.namespace, ()) if _selects(one, key, labels)]
        for one in found:
            taken.setdefault(one.key, []).append(key)
        if len(found) == 1:
            by[key] = found[0]
        elif found:
            contested[key] = tuple(sorted(one.name for one in found))
    single = {one.key for some in usable.values() for one in some if one.spec is not None and not one.spec.several}
    ambiguous = {name: tuple(keys) for name, keys in taken.items() if name in single and len(keys) > 1}
    by = {key: policy for key, policy in by.items() if policy.key not in ambiguous}
    return Governed(by, contested, ambiguous)


def _selects(policy: PolicyView, key: WorkloadKey, labels: Mapping[str, str]) -> bool:
    spec = policy.spec
    return spec is not None and (not spec.kinds or key.kind in spec.kinds) and fits(spec.selector, labels)
