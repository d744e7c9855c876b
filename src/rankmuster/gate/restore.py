"""An approved release as what puts it back: shell, a patch of its object, or a patch for kustomize. Pure.

Every variable of communication becomes what it was, byte for byte, and those that were not set then are taken away.
What is none of communication stays where and as it is, and stands in no patch: it may be a secret.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankmuster.gate.deployed import Deployed, Object, Workload
from rankmuster.gate.env_operations import NotInOrder, env_operations
from rankmuster.model.release import Artefact, Part


class NotRestorable(Exception):
    """The release cannot be put back in this form; the message says why, and in which it can."""


@dataclass(frozen=True, slots=True)
class ObjectPatch:
    """RFC 6902 operations for one object, in their order."""

    owner: Object
    operations: tuple[Mapping[str, Any], ...]


def as_shell(approved: Artefact, current: Workload | None, container: str | None = None) -> str:
    """POSIX sh, to source or eval: what is set now and was not then is unset, everything else exported.

    `current`: what is deployed now; None: nothing is unset. Raises NotRestorable: containers with different settings,
    of which none is named by `container` (the end of its place); a value that only a pod has.
    """
    part = _only(approved, container)
    now = _match(part, current) if current is not None else None
    before = {one.name for one in part.settings}
    lines = [f"# rankmuster: the settings of release {_comment(approved.name)} as they were approved"]
    if now is not None:
        set_now = [*(one.name for one in now.settings), *sorted(now.given.unknown)]
        lines += [f"unset {name}" for name in dict.fromkeys(set_now) if name not in before]
    for one in part.settings:
        if one.value is None or one.expands:
            was = one.reference or repr(one.value)
            raise NotRestorable(f"{one.name} was {was}, which only a pod has: take --format pod-patch or kustomize")
        lines.append(f"export {one.name}={shlex.quote(one.value)}")
    return "\n".join(lines) + "\n"


def patches(approved: Artefact, current: Workload) -> tuple[ObjectPatch, ...]:
    """What makes the objects of `current` talk as the approved release did, one patch an object; those that do already
    have none. Raises NotRestorable: a container of the release is not there any more, or has no object; something that
    cannot be seen sets variables of it now."""
    found: dict[int, tuple[Object, list[Mapping[str, Any]]]] = {}
    for part in approved.parts:
        now = _match(part, current)
        if now.owner is None:
            raise NotRestorable(
                f"{current.source} is no Kubernetes object, so that nothing can be patched: take --format shell"
            )
        if hidden := [one for one in now.dark if one not in part.dark]:
            raise NotRestorable(f"{now.where}: {hidden[0]}; take that away first, no patch of `env` undoes it")
        operations = _operations(part, now)
        if operations:
            found.setdefault(id(now.owner.document), (now.owner, []))[1].extend(operations)
    return tuple(ObjectPatch(owner, tuple(operations)) for owner, operations in found.values())


def as_json_patch(patch: ObjectPatch) -> str:
    """For `kubectl patch --type json --patch-file`, an operation a line."""
    return "[\n" + ",\n".join(json.dumps(one, sort_keys=True) for one in patch.operations) + "\n]\n"


def as_kustomize(made: Sequence[ObjectPatch]) -> str:
    """A `patches:` list for a kustomization.yaml (kustomize 4 and later, kubectl 1.22), where names and namespaces are
    regular expressions."""
    lines = ["patches:" if made else "patches: []"]
    for one in made:
        group, _, version = one.owner.api_version.rpartition("/")
        target = {"group": group, "version": version, "kind": one.owner.kind, "name": _exactly(one.owner.name)}
        target["namespace"] = _exactly(one.owner.namespace or "")
        lines += ["- target:", *(f"    {key}: {json.dumps(value)}" for key, value in target.items() if value)]
        lines += ["  patch: |-", *(f"    {line}" for line in as_json_patch(one).splitlines())]
    return "\n".join(lines) + "\n"


def command(patch: ObjectPatch, file: str) -> str:
    """How the patch is applied, for a person. The kind with its group: several groups have a Service."""
    owner = patch.owner
    group, _, version = owner.api_version.rpartition("/")
    kind = f"{owner.kind}.{version}.{group}" if group else owner.kind
    where = ["--namespace", owner.namespace] if owner.namespace else []
    return shlex.join(["kubectl", *where, "patch", kind, owner.name, "--type", "json", "--patch-file", file])


def _exactly(name: str) -> str:
    return name.replace(".", "\\.")


def _only(approved: Artefact, container: str | None) -> Part:
    parts = [one for one in approved.parts if container is None or one.place.rpartition("/")[2] == container]
    if not parts:
        there = ", ".join(one.where for one in approved.parts)
        raise NotRestorable(f"release {approved.name} has no container {container!r}; there is {there}")
    if any(one.settings != parts[0].settings for one in parts):
        raise NotRestorable(
            f"the containers of {approved.name} have different settings ({', '.join(one.where for one in parts)}): "
            "name one with --container, or take --format pod-patch"
        )
    return parts[0]


def _match(part: Part, current: Workload) -> Deployed:
    found = [one for one in current.deployed if one.identity == part.place]
    if not found:
        there = ", ".join(one.where for one in current.deployed)
        raise NotRestorable(f"{part.where} of the release is not in {current.source}; there is {there}")
    return found[0]


def _operations(part: Part, now: Deployed) -> list[Mapping[str, Any]]:
    at = _pointer(now.place)
    operations: list[Mapping[str, Any]] = []
    image = _image(part)
    if image is not None and image != now.image:
        operations.append({"op": "replace" if now.image is not None else "add", "path": f"{at}/image", "value": image})
    there = isinstance(_node(now, now.place).get("env"), list)
    try:
        operations += env_operations(now.entries, part.settings, f"{at}/env", there=there)
    except NotInOrder as error:
        raise NotRestorable(f"{now.where}: {error}") from None
    return [*_guards(now), *operations] if operations else []


def _guards(now: Deployed) -> list[Mapping[str, Any]]:
    """Tests that the patch meets what it was made for: every named item on the way to the container."""
    found: list[Mapping[str, Any]] = []
    for length in range(1, len(now.place) + 1):
        place = now.place[:length]
        name = _node(now, place).get("name") if isinstance(place[-1], int) else None
        if isinstance(name, str):
            found.append({"op": "test", "path": f"{_pointer(place)}/name", "value": name})
    return found


def _pointer(place: Sequence[str | int]) -> str:
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in place)


def _node(now: Deployed, place: Sequence[str | int]) -> Mapping[str, Any]:
    found: Any = now.owner.document if now.owner is not None else {}
    for key in place:
        found = found[key]
    assert isinstance(found, Mapping)
    return found


def _image(part: Part) -> str | None:
    """As it was written, by its digest."""
    if part.image is None or part.digest is None:
        return part.image
    return f"{part.image.partition('@')[0]}@{part.digest}"


def _comment(text: str) -> str:
    return " ".join(text.split())
