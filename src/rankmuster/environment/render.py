"""A profile as text: shell to source, YAML for a pod's container, or JSON (`rankmuster.env/1`)."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterable, Iterator

from rankmuster.environment.draft import Setting
from rankmuster.environment.profile import Profile
from rankmuster.environment.version import written
from rankmuster.environment.wrapped import WIDEST

SCHEMA = "rankmuster.env/1"
POD_UID = "POD_UID"
REFERENCE = f"$({POD_UID})"
"""How Kubernetes puts the value of an earlier variable into a later one."""


def as_shell(profile: Profile) -> str:
    """For `eval "$(...)"`, a file to source, or a launcher's script; POSIX sh."""
    lines = [*_comments(_head(profile))]
    lines += [f"mkdir -p -- {shlex.quote(folder)}" for folder in profile.folders]
    for setting in profile.settings:
        lines += ["", *_comments(_reason(setting)), f"export {setting.name}={shlex.quote(setting.value)}"]
    lines += ["", *_comments(_tail(profile))]
    return "\n".join(lines).rstrip() + "\n"


def as_yaml(profile: Profile) -> str:
    """A list for `env:` of a container. A pod's UID in the paths comes from the downward API."""
    lines = [*_comments(_head(profile))]
    lines += _comments(_folders_of_a_pod(profile))
    lines += ["env:"]
    for setting in profile.settings:
        lines += [f"  {line}" for line in _comments(_reason(setting))]
        lines += [f"  - name: {setting.name}"]
        if setting.name == POD_UID and profile.request.place.variable:
            lines += ["    valueFrom: {fieldRef: {fieldPath: metadata.uid}}"]
        else:
            lines += [f"    value: {json.dumps(_escaped(setting.value, profile), ensure_ascii=False)}"]
    lines += [*_comments(_tail(profile))]
    return "\n".join(lines).rstrip() + "\n"


def as_json(profile: Profile) -> str:
    """Schema `rankmuster.env/1`; fields may be added, never renamed."""
    request = profile.request
    document = {
        "schema": SCHEMA,
        "profile": request.profile.value,
        "purpose": profile.purpose,
        "torch": written(request.torch),
        "nccl": written(request.nccl),
        "engine": request.engine.value if request.engine else None,
        "class": request.suspect.value if request.suspect else None,
        "instance": request.place.instance,
        "incarnation": request.place.incarnation,
        "folders": list(profile.folders),
        "settings": [
            {"name": item.name, "value": item.value, "reason": item.reason, "cost": item.cost or None}
            for item in profile.settings
        ],
        "left_out": [{"name": item.name, "why": item.why} for item in profile.left_out],
        "warnings": list(profile.warnings),
        "hints": list(profile.hints),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _folders_of_a_pod(profile: Profile) -> Iterator[str]:
    place = profile.request.place
    yield f"Mount a volume at {place.folder}, and let the container's command begin with"
    for folder in profile.folders:
        yield f'mkdir -p "{folder.replace(REFERENCE, f"${POD_UID}")}"'
    yield "since torch ends a process whose pipe it cannot make."


def _escaped(value: str, profile: Profile) -> str:
    """Kubernetes expands `$(NAME)` in values; only the reference that is meant may stay one."""
    if not profile.request.place.variable:
        return value.replace("$(", "$$(")
    return REFERENCE.join(part.replace("$(", "$$(") for part in value.split(REFERENCE))


def _head(profile: Profile) -> Iterator[str]:
    request = profile.request
    engine = f", {request.engine.value}" if request.engine else ""
    suspect = f", for {request.suspect.value}" if request.suspect else ""
    yield (
        f"rankmuster env print: profile {request.profile.value}{suspect}, torch {written(request.torch)}, "
        f"NCCL {written(request.nccl)}{engine}, instance {request.place.instance}"
    )
    yield profile.purpose
    for warning in profile.warnings:
        yield f"WARNING: {warning}"


def _reason(setting: Setting) -> Iterator[str]:
    yield setting.reason + (f". Costs: {setting.cost}" if setting.cost else "")


def _tail(profile: Profile) -> Iterator[str]:
    for item in profile.left_out:
        yield f"left out: {item.name}: {item.why}"
    for hint in profile.hints:
        yield f"also: {hint}"


def _comments(texts: Iterable[str]) -> list[str]:
    lines = []
    for text in texts:
        lines += textwrap.wrap(
            text,
            WIDEST,
            initial_indent="# ",
            subsequent_indent="#   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines
