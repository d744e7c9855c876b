"""The resources that the simulated server knows from the start: Kubernetes' own, and those of groups of pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class KindInfo:
    """`status`: it has the status subresource. `counted`: it has metadata.generation. `schemas`: served version ->
    structural schema, of what a CustomResourceDefinition made; empty for Kubernetes' own. `custom`: whether it is one
    of those. `version`: the one it is stored in."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    counted: bool = False
    custom: bool = False
    short: tuple[str, ...] = ()
    schemas: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    scale: bool = False

    @property
    def key(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(self.schemas) or (self.version,)

    @property
    def singular(self) -> str:
        return self.kind.lower()

    def api_version(self, version: str | None = None) -> str:
        """As objects have it."""
        one = version or self.version
        return f"{self.group}/{one}" if self.group else one


def _own(group: str, version: str, *rows: tuple[str, str, str]) -> tuple[KindInfo, ...]:
    """`rows`: plural, kind, and words: c cluster-wide, s status, g generation, n scale, then short names."""
    made = []
    for plural, kind, words in rows:
        flags, _, short = words.partition(" ")
        made.append(
            KindInfo(
                group,
                version,
                plural,
                kind,
                namespaced="c" not in flags,
                status="s" in flags,
                counted="g" in flags,
                scale="n" in flags,
                short=tuple(short.split()),
            )
        )
    return tuple(made)


def _outside(group: str, version: str, plural: str, kind: str, *short: str) -> KindInfo:
    """A resource of somebody's CustomResourceDefinition, here without a schema of its own."""
    return KindInfo(group, version, plural, kind, status=True, counted=True, custom=True, short=short)


BUILT_IN: tuple[KindInfo, ...] = (
    *_own(
        "",
        "v1",
        ("namespaces", "Namespace", "cs ns"),
        ("nodes", "Node", "cs no"),
        ("pods", "Pod", "s po"),
        ("services", "Service", "s svc"),
        ("endpoints", "Endpoints", "- ep"),
        ("events", "Event", "- ev"),
        ("configmaps", "ConfigMap", "- cm"),
        ("secrets", "Secret", "-"),
        ("serviceaccounts", "ServiceAccount", "- sa"),
        ("persistentvolumeclaims", "PersistentVolumeClaim", "s pvc"),
        ("persistentvolumes", "PersistentVolume", "cs pv"),
    ),
    *_own(
        "apps",
        "v1",
        ("deployments", "Deployment", "sgn deploy"),
        ("replicasets", "ReplicaSet", "sgn rs"),
        ("statefulsets", "StatefulSet", "sgn sts"),
        ("daemonsets", "DaemonSet", "sg ds"),
        ("controllerrevisions", "ControllerRevision", "-"),
    ),
    *_own("batch", "v1", ("jobs", "Job", "sg"), ("cronjobs", "CronJob", "sg cj")),
    *_own("coordination.k8s.io", "v1", ("leases", "Lease", "-")),
    *_own("discovery.k8s.io", "v1", ("endpointslices", "EndpointSlice", "g")),
    *_own("policy", "v1", ("poddisruptionbudgets", "PodDisruptionBudget", "sg pdb")),
    *_own("networking.k8s.io", "v1", ("networkpolicies", "NetworkPolicy", "g netpol"), ("ingresses", "Ingress", "sg")),
    *_own(
        "rbac.authorization.k8s.io",
        "v1",
        ("roles", "Role", "-"),
        ("rolebindings", "RoleBinding", "-"),
        ("clusterroles", "ClusterRole", "c"),
        ("clusterrolebindings", "ClusterRoleBinding", "c"),
    ),
    *_own("scheduling.k8s.io", "v1", ("priorityclasses", "PriorityClass", "cg pc")),
    *_own("storage.k8s.io", "v1", ("storageclasses", "StorageClass", "c sc")),
    *_own("apiextensions.k8s.io", "v1", ("customresourcedefinitions", "CustomResourceDefinition", "csg crd crds")),
    _outside("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", "lws"),
    _outside("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    _outside("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService", "isvc"),
    _outside("inference.networking.k8s.io", "v1", "inferencepools", "InferencePool"),
)
