"""One engine's container as it is deployed: its image, what is set in it, and what sets it and cannot be seen. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankmuster.environment.config_maps import ConfigMaps, brought_in
from rankmuster.environment.given import Given, is_communication
from rankmuster.environment.read_manifest import Place, PodSpec
from rankmuster.model.release import Setting

_DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})$")
_REFERENCE = re.compile(r"(?<!\$)(?:\$\$)*\$\(([A-Za-z_][\w.-]*)\)")
NCCL_CONF = ("/etc/nccl.conf", "/root/.nccl.conf")
"""Files that NCCL reads variables from, besides its environment (user guide, "Environment Variables")."""


class NotDeployable(Exception):
    """The file says nothing that could be approved; the message says what it lacks, and what to do."""


@dataclass(frozen=True, slots=True)
class Object:
    """A Kubernetes object that holds the container; `document`: as it was read, never changed."""

    kind: str
    name: str
    namespace: str | None
    api_version: str
    labels: Mapping[str, str]
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Deployed:
    """One engine's container, or what stands for one where there is none (a unit, a file of variables).

    `where`: in words. `place`: from the object to the container; empty without one. `identity`: the same by the names
    of objects and items, by which it is found again in another file. `image`: as written; `digest`: of it, where it is
    pinned. `settings`: of communication, and what these refer to, in their order. `entries`: the whole `env` as it
    stands there. `shape`: what else of it changes how ranks talk (GPUs, its command's hash). `dark`: what sets
    variables and could not be seen. `given`: as `env check` has it.
    """

    where: str
    container: str | None
    place: Place
    identity: str
    owner: Object | None
    image: str | None
    digest: str | None
    settings: tuple[Setting, ...]
    entries: tuple[Mapping[str, Any], ...]
    shape: Mapping[str, str]
    dark: tuple[str, ...]
    given: Given


@dataclass(frozen=True, slots=True)
class Workload:
    """`deployed`: the engine's containers, in the file's order (a leader's and its workers'). `sha256`: of the file."""

    source: str
    sha256: str
    deployed: tuple[Deployed, ...]


def objects_of(documents: Iterable[Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Kubernetes objects, those of lists one by one."""
    for one in documents:
        kind = one.get("kind") if isinstance(one, Mapping) else None
        if not isinstance(kind, str):
            continue
        items = one.get("items")
        if kind.endswith("List") and isinstance(items, list) and depth < 2:
            common = {"apiVersion": one.get("apiVersion")}
            common |= {"kind": kind.removesuffix("List")} if kind != "List" else {}
            yield from objects_of(({**common, **item} for item in items if isinstance(item, Mapping)), depth + 1)
        else:
            yield one


def pinned(image: str | None) -> str | None:
    """The digest in an image's name."""
    found = _DIGEST.search(image or "")
    return found.group(1) if found else None


def references(value: str) -> tuple[str, ...]:
    """Names of variables that Kubernetes puts into a value."""
    return tuple(_REFERENCE.findall(value))


def deployed_in(
    document: Mapping[str, Any],
    pod: PodSpec,
    place: Place,
    container: Mapping[Any, Any],
    given: Given,
    maps: ConfigMaps,
) -> Deployed:
    """A container of a Kubernetes object. Raises NotDeployable."""
    name = str(container.get("name") or "")
    where = f"{pod.owner}, container {name}"
    entries = _entries(container, where)
    settings = _settings(entries)
    owner = _owner(document)
    return Deployed(
        where,
        name,
        place,
        _identity(owner, place, where),
        owner,
        _text(container.get("image")),
        pinned(_text(container.get("image"))),
        settings,
        entries,
        _shape(container, given),
        tuple(dict.fromkeys(_dark(container, given, settings, maps))),
        given,
    )


def plain_one(given: Given, number: int) -> Deployed:
    """What stands for a container where variables alone are given."""
    dark = [f"{name} is set to what is known only where it runs" for name in sorted(given.unknown)]
    settings = tuple(Setting(name, value) for name, value in given.communication.items())
    identity = "" if number == 0 else str(number)
    seen = (*dark, *given.odd)
    return Deployed(given.where, None, (), identity, None, None, None, settings, (), {}, seen, given)


def _owner(document: Mapping[str, Any]) -> Object:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    labels = metadata.get("labels")
    return Object(
        str(document.get("kind")),
        str(metadata.get("name") or metadata.get("generateName") or ""),
        _text(metadata.get("namespace")),
        str(document.get("apiVersion") or ""),
        {str(key): str(value) for key, value in labels.items()} if isinstance(labels, Mapping) else {},
        document,
    )


def _identity(owner: Object, place: Place, where: str) -> str:
    """`LeaderWorkerSet/llm-0:spec/leaderWorkerTemplate/workerTemplate/spec/containers/vllm`: items of lists by their
    names, since lists are reordered."""
    words = []
    node: Any = owner.document
    for key in place:
        try:
            node = node[key]
        except (KeyError, IndexError, TypeError):
            raise NotDeployable(f"{where}: a key above it is no text: write it with quotes") from None
        named = node.get("name") if isinstance(key, int) and isinstance(node, Mapping) else None
        words.append(str(named if isinstance(named, str) else key))
    return f"{owner.kind}/{owner.name}:{'/'.join(words)}"


def _entries(container: Mapping[Any, Any], where: str) -> tuple[Mapping[str, Any], ...]:
    """The `env` list as it stands. Raises NotDeployable for what Kubernetes would refuse, or take one of two of."""
    listed = container.get("env")
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise NotDeployable(f"{where}: env is no list")
    seen: set[str] = set()
    for entry in listed:
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str):
            raise NotDeployable(f"{where}: an entry of env has no name")
        if "value" in entry and entry["value"] is not None and not isinstance(entry["value"], str):
            raise NotDeployable(f"{where}: {name} is not quoted: Kubernetes takes only text for a value")
        if name in seen and is_communication(name):
            raise NotDeployable(f"{where}: {name} is set twice, and only the last one counts: leave one of them")
        seen.add(name)
    return tuple(listed)


def _settings(entries: Sequence[Mapping[str, Any]]) -> tuple[Setting, ...]:
    """Of communication, and every variable that one of these refers to, however far."""
    by_name = {str(one["name"]): one for one in entries}
    wanted = {name for name in by_name if is_communication(name)}
    left = list(wanted)
    while left:
        value = by_name[left.pop()].get("value")
        more = {name for name in references(value or "") if name in by_name and name not in wanted}
        wanted |= more
        left += more
    return tuple(_setting(one) for one in entries if one["name"] in wanted)


def _setting(entry: Mapping[str, Any]) -> Setting:
    name = str(entry["name"])
    if entry.get("valueFrom") is not None:
        rest = {key: value for key, value in entry.items() if key != "name" and value is not None}
        return Setting(name, None, json.dumps(rest, sort_keys=True))
    value = entry.get("value")
    text = "" if value is None else str(value)
    return Setting(name, text, None, bool(references(text)))


def _dark(container: Mapping[Any, Any], given: Given, settings: Sequence[Setting], maps: ConfigMaps) -> Iterator[str]:
    brought, unseen = brought_in(container.get("envFrom") or (), maps)
    yield from unseen
    if any(is_communication(key) for key in brought):
        yield "envFrom brings in variables of communication: set them in `env`, where a roll-back can"
    by_name = {one.name: one for one in settings}
    for name in sorted(given.unknown):
        if not is_communication(name):
            continue
        one = by_name.get(name)
        if one is None:
            yield f"{name} is set in the container's command, where nobody can compare or restore it"
        elif not _of_the_pod(one):
            said = one.reference or one.value
            yield f"{name} comes from elsewhere ({said}), and its value is not known here"
    for path in NCCL_CONF:
        if given.pod is not None and any(_holds(mount.path, path) for mount in given.pod.mounts):
            yield f"a volume is mounted at {path}, from which NCCL reads more variables"


def _of_the_pod(one: Setting) -> bool:
    """What the downward API says of the pod itself is known by its nature: a UID, a name, an address."""
    rest = json.loads(one.reference) if one.reference is not None else {}
    source = rest.get("valueFrom")
    return isinstance(source, Mapping) and "fieldRef" in source and not one.name.startswith(("NCCL_", "TORCH_"))


def _holds(mount: str, path: str) -> bool:
    return mount == path or mount.rstrip("/") == path.rpartition("/")[0]


def _shape(container: Mapping[Any, Any], given: Given) -> dict[str, str]:
    words = json.dumps([container.get("command"), container.get("args")], sort_keys=True, default=str)
    gpus = given.pod.gpus if given.pod is not None else 0
    return {"command": f"sha256:{hashlib.sha256(words.encode()).hexdigest()}", "GPUs": str(gpus)}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
