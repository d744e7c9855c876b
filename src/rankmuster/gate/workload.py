"""What is deployed, read from its specification: the engine's containers, their images, and what is set in them.

A container's `env` is kept as it stands there, references and all: what is put back later must be byte for byte what
was approved. What sets a variable and cannot be seen is said (`dark`), and never taken for nothing. Kubernetes objects
of any kind, docker-compose, and every other form that `env check` reads (a unit, .env, shell).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankmuster.environment.config_maps import ConfigMaps, config_maps
from rankmuster.environment.given import Given
from rankmuster.environment.read_file import bytes_of, documents_of, read_bytes
from rankmuster.environment.read_manifest import PodSpec, containers_of, pod_specs
from rankmuster.gate.deployed import Deployed, NotDeployable, Workload, deployed_in, objects_of, plain_one
from rankmuster.gate.deployed_compose import deployed_services

__all__ = ["Deployed", "NotDeployable", "Workload", "read_workload", "workload_of"]


def read_workload(path: Path, containers: Sequence[str] = ()) -> Workload:
    """`containers`: names of the engine's; else those that ask for GPUs, or a pod's only one.

    Raises environment.given.Unreadable, NotDeployable.
    """
    return workload_of(bytes_of(path), str(path), containers)


def workload_of(data: bytes, name: str, containers: Sequence[str] = ()) -> Workload:
    """The same for bytes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotDeployable(
            f"{name} is no UTF-8 (byte {error.start}): what cannot be written down exactly cannot be put back"
        ) from None
    try:
        found = tuple(_in_documents(text, name, containers)) if b"\0" not in data else ()
    except NotDeployable as error:
        raise error if name in str(error) else NotDeployable(f"{name}: {error}") from None
    if not found:
        found = tuple(plain_one(one, number) for number, one in enumerate(read_bytes(data, name)))
    if not found:
        raise NotDeployable(f"{name} holds no container and sets no variable")
    return Workload(name, hashlib.sha256(data).hexdigest(), found)


def _in_documents(text: str, name: str, containers: Sequence[str]) -> Iterator[Deployed]:
    documents, damage = documents_of(text, exactly=True)
    if damage and "\t" in text:
        # read as blanks it would be another text
        documents, _ = documents_of(text)
        damage = f"{damage}, where tabs stand; write blanks, and \\t within values"
    compose = [one for one in documents if isinstance(one, Mapping) and isinstance(one.get("services"), Mapping)]
    objects = list(objects_of(documents))
    pods = [(one, list(pod_specs(one))) for one in objects]
    if (compose or any(found for _, found in pods)) and damage:
        raise NotDeployable(f"{name} is no sound YAML throughout: {damage}; a release is not approved by a part of it")
    for one in compose:
        if "kind" not in one:
            yield from deployed_services(one["services"], name, containers)
    maps = config_maps(documents)
    chosen = list(_of_objects(pods, maps, name, containers))
    named = {one.container for one in chosen}
    if any(found for _, found in pods) and (missing := [one for one in containers if one not in named]):
        there = ", ".join(_names(pods, maps)) or "none"
        raise NotDeployable(f"{name}: no container is called {', '.join(missing)}; there is {there}")
    yield from chosen


_Pods = Sequence[tuple[Mapping[str, Any], list[PodSpec]]]
_Listed = tuple[PodSpec, tuple[str | int, ...], Mapping[Any, Any], Given]


def _names(pods: _Pods, maps: ConfigMaps) -> list[str]:
    return [
        str(container.get("name")) for _, found in pods for pod in found for _, container, _ in containers_of(pod, maps)
    ]


def _of_objects(pods: _Pods, maps: ConfigMaps, name: str, containers: Sequence[str]) -> Iterator[Deployed]:
    """Of each object with an engine, the engine of every pod of it: a leader whose engine nobody can tell is no part
    that one may leave out. Other objects of the file (a gateway, a Service) are passed over."""
    whole = [
        (document, [[(pod, *one) for one in containers_of(pod, maps)] for pod in found]) for document, found in pods
    ]
    any_gpus = any(_asks(one) or _named(one, containers) for _, listed in whole for pod in listed for one in pod)
    for document, listed in whole:
        if not any(_asks(one) or _named(one, containers) for pod in listed for one in pod) and any_gpus:
            continue
        for pod in listed:
            for spec, place, container, given in _engines(pod, name, containers):
                yield deployed_in(document, spec, place, container, given, maps)


def _asks(one: _Listed) -> bool:
    return one[3].pod is not None and bool(one[3].pod.gpus)


def _named(one: _Listed, containers: Sequence[str]) -> bool:
    return str(one[2].get("name")) in containers


def _engines(pod: Sequence[_Listed], name: str, containers: Sequence[str]) -> Sequence[_Listed]:
    asking = [one for one in pod if _asks(one)]
    chosen = [one for one in pod if _named(one, containers)] if containers else asking
    left = [str(one[2].get("name")) for one in asking if one not in chosen]
    if left:
        raise NotDeployable(
            f"{name}: {pod[0][0].owner}: container {', '.join(left)} asks for GPUs, and is not among `containers`: "
            "name it"
        )
    if chosen or not pod:
        return chosen
    if len(pod) == 1:
        return pod
    there = ", ".join(str(one[2].get("name")) for one in pod)
    raise NotDeployable(
        f"{name}: {pod[0][0].owner}: no container asks for GPUs, and there are several in a pod ({there}): name the "
        "engine's with `containers`"
    )
