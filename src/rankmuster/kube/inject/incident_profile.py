"""The profile in ConfigMaps instead of `env`, so that one start of a group can have the incident's. Pure.

What stands in `env` wins over every `envFrom`, and of those the last one wins. So the profile's variables leave `env`
for a ConfigMap of their own, and the one that the controller fills for one start stands behind it. Both stand before
the container's own `envFrom`: what its owner has set wins over both, as it does in `env`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from rankmuster.adapters.kube.naming import profile_config_map, steady_config_map
from rankmuster.environment.draft import ProfileName
from rankmuster.kube.inject.engine_environment import INSTANCE, profile_of
from rankmuster.kube.inject.settings import InjectSettings
from rankmuster.kube.inject.templates import NotInjectable, Template
from rankmuster.model.kube import DOMAIN, INJECTED

STEADY = f"{DOMAIN}/steady-profile"
"""Annotation of the pods: a sum over the ConfigMap's variables, so that a change of them rolls the workload."""

OF_INSTANCE = frozenset({INSTANCE, "NCCL_RAS_ADDR"})
"""Who it is and where it answers. The controller's ConfigMap is read by all groups of a workload, and has them of one
group: they stay in `env`."""


@dataclass(frozen=True, slots=True)
class Steady:
    """The profile of one workload. `incident`: the ConfigMap that the controller fills. `data`: not expanded, since
    Kubernetes expands references in `env` alone. `changed`: names that an incident's profile may set besides."""

    namespace: str | None
    name: str
    incident: str
    data: dict[str, str]
    changed: frozenset[str]

    def document(self, version: str) -> dict[str, Any]:
        place = {} if self.namespace is None else {"namespace": self.namespace}
        metadata = {"name": self.name, **place, "annotations": {INJECTED: version}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self.data}

    def is_it(self, document: Any) -> bool:
        """Whether that is our ConfigMap of an earlier time. Raises NotInjectable for one of ours by name alone."""
        if not isinstance(document, dict) or document.get("kind") != "ConfigMap":
            return False
        metadata = document.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("name") != self.name:
            return False
        if (metadata.get("namespace") or None) != self.namespace:
            return False
        if INJECTED not in (metadata.get("annotations") or {}):
            raise NotInjectable(f"ConfigMap {self.name} is there already and is not ours: rename it")
        return True


def steady_of(template: Template, settings: InjectSettings) -> Steady | None:
    """None where the controller has no name for what makes these pods. Raises NotInjectable where the name that it
    has is not written."""
    if template.workload is None:
        return None
    if not template.workload:
        raise NotInjectable(
            f"{template.where}: without metadata.name nobody can say which ConfigMap the controller fills for its next "
            "start: name it, or leave --incident-profile out"
        )
    data = {one.name: one.value for one in profile_of(settings, template).settings if one.name not in OF_INSTANCE}
    incident = {one.name for one in profile_of(settings, template, ProfileName.INCIDENT).settings}
    return Steady(
        template.namespace,
        steady_config_map(template.workload),
        profile_config_map(template.workload),
        data,
        frozenset(incident - OF_INSTANCE),
    )


def refer(container: dict[str, Any], template: Template, steady: Steady | None, where: str) -> list[str]:
    """Puts both ConfigMaps first into its `envFrom`; takes those of an earlier time out where `steady` is None. Notes
    on what an incident cannot change."""
    listed = container.get("envFrom")
    if listed is None:
        listed = []
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise NotInjectable(f"{where}: envFrom is no list of objects")
    others = [one for one in listed if not _ours(one, template)]
    if steady is None:
        if len(others) != len(listed):
            _put(container, others)
        return []
    # optional: no pod waits for a ConfigMap of ours
    both = [{"configMapRef": {"name": name, "optional": True}} for name in (steady.name, steady.incident)]
    _put(container, [*both, *others])
    notes: list[str] = []
    fixed = sorted({str(one.get("name")) for one in container.get("env") or ()} & {*steady.data, *steady.changed})
    if fixed:
        notes.append(f"{where}: set in env, so the incident's profile does not change it: {', '.join(fixed)}")
    if others:
        notes.append(f"{where}: what its own envFrom sets, the incident's profile does not change")
    return notes


def mark(template: Template, steady: Steady | None) -> None:
    """The annotation of its pods, where the kind has a place for it."""
    annotations = (template.metadata or {}).get("annotations")
    if not isinstance(annotations, dict):
        return
    if steady is None:
        annotations.pop(STEADY, None)
    else:
        whole = json.dumps(steady.data, sort_keys=True)
        annotations[STEADY] = hashlib.sha256(whole.encode()).hexdigest()[:12]


def _ours(entry: dict[str, Any], template: Template) -> bool:
    reference = entry.get("configMapRef")
    if not template.workload or entry.get("prefix") or not isinstance(reference, dict):
        return False
    return reference.get("name") in (steady_config_map(template.workload), profile_config_map(template.workload))


def _put(container: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    if entries:
        container["envFrom"] = entries
    else:
        container.pop("envFrom", None)
