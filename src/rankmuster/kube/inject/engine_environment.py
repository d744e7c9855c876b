"""Variables of the engine's container: whose pod it is, what its instance is called, and the logging profile. Pure."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from rankmuster.environment.draft import ProfileName
from rankmuster.environment.place import Place
from rankmuster.environment.profile import Profile, Request, make_profile
from rankmuster.kube.inject.settings import InjectSettings
from rankmuster.kube.inject.templates import NotInjectable, Template
from rankmuster.model.kube import EVIDENCE_FOLDER

DOWNWARD = (
    ("POD_UID", "metadata.uid"),
    ("POD_NAME", "metadata.name"),
    ("POD_NAMESPACE", "metadata.namespace"),
    ("NODE_NAME", "spec.nodeName"),
    ("HOST_IP", "status.hostIP"),
    ("POD_IP", "status.podIP"),
)
INSTANCE = "RANKMUSTER_INSTANCE"


def profile_of(settings: InjectSettings, template: Template, name: ProfileName | None = None) -> Profile:
    """The same as `rankmuster env print` makes; `name`: of another one than asked for. The pod's volume is this
    start's own: no folder of it is needed."""
    place = Place(EVIDENCE_FOLDER, template.instance, None, own=True)
    return make_profile(Request(name or settings.profile, settings.torch, settings.nccl, place, settings.engine))


def downward(template: Template, *, names: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
    """Entries by the downward API. `names`: only these of the common ones."""
    chosen = [(name, path) for name, path in DOWNWARD if names is None or name in names]
    chosen += [(name, f"metadata.labels['{label}']") for name, label in template.labels]
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in chosen]


def wanted(
    settings: InjectSettings, template: Template, *, elsewhere: Container[str] = frozenset()
) -> list[dict[str, Any]]:
    """All of them, in an order in which each may refer to those before it. `elsewhere`: names that are set by other
    means."""
    entries = downward(template)
    entries.append({"name": INSTANCE, "value": template.instance})
    for setting in profile_of(settings, template).settings:
        if setting.name != INSTANCE and setting.name not in elsewhere:
            entries.append({"name": setting.name, "value": setting.value.replace("$(", "$$(")})
    return entries


def add(container: dict[str, Any], entries: list[dict[str, Any]], where: str) -> list[str]:
    """Adds what is not set yet; the names of what is set otherwise and stays so. Raises NotInjectable where a variable
    that the instance's name is made of means something else."""
    env = container.get("env")
    if env is None:
        env = container["env"] = []
    if not isinstance(env, list) or not all(isinstance(one, dict) for one in env):
        raise NotInjectable(f"{where}: env is no list of objects")
    known = {one.get("name"): one for one in env}
    kept: list[str] = []
    for entry in entries:
        name = entry["name"]
        there = known.get(name)
        if there is None:
            env.append(entry)
        elif not _same(there, entry):
            if name == INSTANCE:
                there.clear()
                there.update(entry)
            elif "valueFrom" in entry:
                raise NotInjectable(
                    f"{where}: {name} is set to something else than the pod's own {_path(entry)}; the instance's name "
                    "is made of it: rename yours, or set it by the downward API"
                )
            else:
                kept.append(name)
    return kept


def _same(there: dict[str, Any], entry: dict[str, Any]) -> bool:
    if "valueFrom" in entry:
        return _path(there) == _path(entry)
    return "valueFrom" not in there and str(there.get("value", "")) == entry["value"]


def _path(entry: dict[str, Any]) -> str | None:
    source = entry.get("valueFrom")
    field = source.get("fieldRef") if isinstance(source, dict) else None
    return field.get("fieldPath") if isinstance(field, dict) else None
