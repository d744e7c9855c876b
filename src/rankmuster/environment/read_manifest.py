"""Specifications: Kubernetes objects of any kind that hold pods, docker-compose, and lists of {name, value}.

Containers are found by shape, not by kind: whatever has a `containers` list is a pod, wherever a Deployment,
StatefulSet, Job, JobSet, LeaderWorkerSet or an operator's own object keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rankmuster.environment.config_maps import ConfigMaps, brought_in, referred
from rankmuster.environment.given import Given, Mount, PodFacts, communication, engine_of, ray_of, sifted
from rankmuster.environment.table import TABLE
from rankmuster.environment.version import parse_version

MAX_DEPTH = 40
"""Levels that are looked through; a JobSet in a List keeps its containers at level 12."""
MAX_NODES = 200_000
"""Values that are looked at: YAML's aliases make a small file endless."""

_REFERENCE = re.compile(r"\$\$|\$\([A-Za-z_][\w.-]*\)")
"""`$$` stands for one dollar sign that refers to nothing."""
_FROM_SHELL = re.compile(r"\$[{A-Za-z_]")
"""What compose fills in."""
_IN_COMMAND = re.compile(r"(?:^|[\s;&|(\"'])([A-Z][A-Z0-9_]{2,80})=")
"""What a container's own command sets before it starts the engine (`export NAME=...; vllm serve`)."""
_TORCH_IMAGE = re.compile(r"(?:^|/)pytorch/pytorch:(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)-")
"""torch's own images say its version in their tag; engines' say only the engine's."""
_NO_MAPS: ConfigMaps = MappingProxyType({})
_NO_VALUES: Mapping[str, str] = MappingProxyType({})
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(Ki|Mi|Gi|Ti|k|M|G|T)?")


def looks_like_manifest(document: object) -> bool:
    """Whether it is a Kubernetes object or a compose file."""
    return isinstance(document, Mapping) and bool({"kind", "apiVersion", "services", "spec"} & document.keys())


def environments(document: object, name: str, maps: ConfigMaps = _NO_MAPS) -> Iterator[Given]:
    """Every environment of one document, in its order. `maps`: ConfigMaps that its containers may take from."""
    if isinstance(document, list):
        if document and all(isinstance(item, Mapping) and "name" in item for item in document):
            yield from _plain(document, name)
        else:
            for item in document[:1000]:
                yield from environments(item, name, maps)
        return
    if not isinstance(document, Mapping):
        return
    if isinstance(document.get("services"), Mapping) and "kind" not in document:
        yield from _compose(document["services"], name)
    elif "settings" in document and _as_text(document.get("schema")).startswith("rankmuster.env/"):
        yield from _plain(document["settings"], name)
    elif isinstance(document.get("env"), list) and "containers" not in document and "image" not in document:
        yield from _plain(document["env"], name)
    elif isinstance(document.get("environment"), Mapping) and "kind" not in document:
        yield _from_pairs(document["environment"], name)
    else:
        yield from _pods(document, name, maps)


Place = tuple[str | int, ...]
"""Keys and indexes from a document to a part of it."""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod's specification in a document. `owner`: whose it is, in words; `place`: where it stands."""

    owner: str
    place: Place
    spec: Mapping[Any, Any]


def pod_specs(document: object) -> Iterator[PodSpec]:
    """Every pod of a document, wherever a workload keeps it; bounded in depth and number."""
    yield from _pod_specs(document, "", (), [MAX_NODES], set())


def containers_of(pod: PodSpec, maps: ConfigMaps = _NO_MAPS) -> Iterator[tuple[Place, Mapping[Any, Any], Given]]:
    """Its containers that run beside each other, sidecars among them: (where one stands in the document, as it is
    there, what it sets). Those that only run at its start are left out."""
    volumes = _volumes(pod.spec)
    for key in ("containers", "initContainers"):
        for index, container in enumerate(_list(pod.spec.get(key))):
            if not isinstance(container, Mapping):
                continue
            if key == "containers" or container.get("restartPolicy") == "Always":
                given = _container(pod.owner, pod.spec, container, volumes, False, maps)
                yield (*pod.place, key, index), container, given


def _pods(document: Mapping[Any, Any], name: str, maps: ConfigMaps) -> Iterator[Given]:
    for pod in pod_specs(document):
        yield from _pod(pod.owner or name, pod.spec, maps)


def _pod_specs(node: object, owner: str, place: Place, budget: list[int], seen: set[int]) -> Iterator[PodSpec]:
    depth = len(place)
    if depth > MAX_DEPTH or budget[0] <= 0 or id(node) in seen or not isinstance(node, (Mapping, list)):
        return
    budget[0] -= 1
    seen = seen | {id(node)}  # of this path only: one template may stand in two places
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _pod_specs(item, owner, (*place, index), budget, seen)
        return
    if isinstance(node.get("containers"), list):
        yield PodSpec(owner, place, node)
        return
    kind, metadata = node.get("kind"), node.get("metadata")
    named = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, Mapping) else None
    if isinstance(kind, str) and kind != "List":
        owner = f"{kind} {_as_text(named) or '(no name)'}"
    for key, value in node.items():
        part = f"{owner}, {key}" if key in ("leaderTemplate", "workerTemplate") else owner
        named = node.get("name") if key == "template" and isinstance(node.get("name"), str) else None
        below = (*place, key if isinstance(key, int) else _as_text(key))
        yield from _pod_specs(value, f"{part}, {named}" if named and owner else part, below, budget, seen)


def _volumes(spec: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        volume["name"]: volume
        for volume in _list(spec.get("volumes"))
        if isinstance(volume, Mapping) and isinstance(volume.get("name"), str)
    }


def _pod(pod: str, spec: Mapping[Any, Any], maps: ConfigMaps) -> Iterator[Given]:
    volumes = _volumes(spec)
    for key, init in (("initContainers", True), ("containers", False)):
        for container in _list(spec.get(key)):
            if isinstance(container, Mapping):
                yield _container(pod, spec, container, volumes, init, maps)


def _container(
    pod: str,
    spec: Mapping[Any, Any],
    container: Mapping[Any, Any],
    volumes: Mapping[str, Any],
    init: bool,
    maps: ConfigMaps,
) -> Given:
    name = _as_text(container.get("name")) or "(no name)"
    brought, dark = brought_in(_list(container.get("envFrom")), maps)
    values, unknown, odd = _env(_list(container.get("env")), maps, brought)
    odd += dark
    command = set(_IN_COMMAND.findall(_words(container, "command", "args")))
    unknown |= frozenset(sifted(dict.fromkeys(command, "")))
    values = {key: value for key, value in values.items() if key not in command}
    words = _words(container, "image", "command", "args")
    asked = _resources(container)
    facts = PodFacts(
        pod=pod,
        container=name,
        init=init,
        gpus=sum(count for key, count in asked.items() if key.startswith("nvidia.com/")),
        host_ipc=spec.get("hostIPC") is True,
        host_network=spec.get("hostNetwork") is True,
        ipc_lock=_ipc_lock(container),
        rdma=any("rdma" in key or "infiniband" in key or "roce" in key for key in asked),
        mounts=_mounts(container, volumes),
    )
    where = f"{pod}, {'init container' if init else 'container'} {name}"
    tagged = _TORCH_IMAGE.search(_as_text(container.get("image")))
    torch = parse_version(tagged.group(1)) if tagged else None
    return Given(
        where,
        sifted(values),
        unknown,
        tuple(odd),
        engine_of(words),
        ray_of(words, values),
        torch,
        pod=facts,
        communication=communication(values),
    )


def _env(
    entries: list[Any], maps: ConfigMaps = _NO_MAPS, brought: Mapping[str, str] = _NO_VALUES
) -> tuple[dict[str, str], frozenset[str], list[str]]:
    """Kubernetes takes the last entry of a name, and expands `$(NAME)` of earlier ones. `brought`: by `envFrom`."""
    values: dict[str, str] = dict(brought)
    unknown: set[str] = set()
    named: set[str] = set()
    odd: list[str] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            odd.append("an entry of env has no name")
            continue
        name, value = entry["name"], entry.get("value")
        if name in TABLE and name in named:
            odd.append(f"{name} is set twice; the last one counts")
        named.add(name)
        values.pop(name, None)
        unknown.discard(name)
        if entry.get("valueFrom") is not None:
            known = referred(entry, maps)
            if known is None:
                unknown.add(name)
            else:
                values[name] = known
            continue
        if value is not None and not isinstance(value, str) and name in TABLE:
            odd.append(f"{name} is not quoted: Kubernetes takes only text for a value and refuses the object")
        text = "" if value is None else _as_text(value)
        text, dark = _expanded(text, values, unknown)
        if dark and name not in _PATHS:
            unknown.add(name)
        else:
            values[name] = text
    return values, frozenset(sifted(dict.fromkeys(unknown, ""))), odd


_PATHS = frozenset(name for name, row in TABLE.items() if row.kind.value.startswith("prefix"))
"""A path with a part that is only known in the pod still tells where it is."""


def _expanded(text: str, values: Mapping[str, str], unknown: set[str]) -> tuple[str, bool]:
    dark = False

    def put(match: re.Match[str]) -> str:
        nonlocal dark
        if match.group() == "$$":
            return "$"
        name = match.group()[2:-1]
        dark = dark or name in unknown
        return values.get(name, match.group())

    return _REFERENCE.sub(put, text), dark


def _as_text(value: object) -> str:
    """Scalars only: the text of a structure that aliases fold together may be endless."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return str(value) if isinstance(value, (str, int, float)) else ""
    except ValueError:  # a number of more digits than Python writes
        return ""


def _plain(entries: object, name: str) -> Iterator[Given]:
    values, unknown, odd = _env(_list(entries))
    if values or unknown:
        yield Given(
            name,
            sifted(values),
            unknown,
            tuple(odd),
            ray=ray_of("", values),
            communication=communication(values),
        )


def _compose(services: Mapping[Any, Any], name: str) -> Iterator[Given]:
    for service, body in services.items():
        if not isinstance(body, Mapping):
            continue
        listed = body.get("environment")
        pairs: dict[Any, Any] = dict(listed) if isinstance(listed, Mapping) else {}
        for entry in _list(listed):
            key, equals, value = _as_text(entry).partition("=")
            pairs[key] = value if equals else None
        words = _words(body, "image", "command", "entrypoint")
        yield _from_pairs(pairs, f"{name}, service {_as_text(service)}", words)


def _from_pairs(pairs: Mapping[Any, Any], where: str, words: str = "") -> Given:
    """A value of null comes from the shell that starts it; `${NAME}` and `$NAME` too."""
    values = {
        _as_text(key): _as_text(value).replace("$$", "$")
        for key, value in pairs.items()
        if value is not None and _FROM_SHELL.search(_as_text(value).replace("$$", "")) is None
    }
    unknown = frozenset(sifted({_as_text(key): "" for key in pairs if _as_text(key) not in values}))
    return Given(
        where,
        sifted(values),
        unknown,
        engine=engine_of(words),
        ray=ray_of(words, values),
        communication=communication(values),
    )


def _resources(container: Mapping[Any, Any]) -> dict[str, int]:
    resources = container.get("resources")
    found: dict[str, int] = {}
    for key in ("requests", "limits"):
        asked = resources.get(key) if isinstance(resources, Mapping) else None
        for name, count in asked.items() if isinstance(asked, Mapping) else ():
            found[_as_text(name)] = max(found.get(_as_text(name), 0), quantity(count) or 0)
    return found


def _mounts(container: Mapping[Any, Any], volumes: Mapping[str, Any]) -> tuple[Mount, ...]:
    found = []
    for mount in _list(container.get("volumeMounts")):
        if not isinstance(mount, Mapping) or not isinstance(mount.get("mountPath"), str):
            continue
        volume = volumes.get(_as_text(mount.get("name")), {})
        kind = next((_as_text(key) for key in volume if key != "name"), "unknown")
        body = volume.get(kind)
        body = body if isinstance(body, Mapping) else {}
        path = mount["mountPath"].rstrip("/") or "/"
        found.append(Mount(path, kind, body.get("medium") == "Memory", quantity(body.get("sizeLimit"))))
    return tuple(found)


def _ipc_lock(container: Mapping[Any, Any]) -> bool:
    context = container.get("securityContext")
    if not isinstance(context, Mapping):
        return False
    capabilities = context.get("capabilities")
    added = _list(capabilities.get("add")) if isinstance(capabilities, Mapping) else []
    return context.get("privileged") is True or bool(
        {"IPC_LOCK", "CAP_IPC_LOCK", "ALL"} & {_as_text(one) for one in added}
    )


def quantity(value: object) -> int | None:
    """`8`, `"16Gi"`, `500M` -> a whole number; None for anything else."""
    if isinstance(value, bool):
        return None
    match = _QUANTITY.fullmatch(_as_text(value).strip())
    return int(float(match.group(1)) * _UNITS[match.group(2) or ""]) if match else None


def _words(body: Mapping[Any, Any], *keys: str) -> str:
    return " ".join(_as_text(word) for key in keys for word in _list(body.get(key)) or [body.get(key)])


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
