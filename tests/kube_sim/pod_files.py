"""What a container of a process kubelet gets to see: its environment, and its volumes as folders of the node."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kube_sim.objects import Object, annotations, labels, name, namespace, uid

MACHINES = ("/proc", "/sys", "/dev", "/lib/modules")
"""Paths of a node that are the machine's own."""


class NotYet(Exception):
    """A volume's source is not there: the pod waits, as Kubernetes has it wait."""


def field(pod: Object, path: str) -> str:
    """Of the downward API."""
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return (labels(pod) if found[1] == "labels" else annotations(pod)).get(found[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        of = labels(pod) if path.endswith("labels") else annotations(pod)
        return "\n".join(f'{key}="{_quoted(value)}"' for key, value in sorted(of.items()))
    status = pod.get("status") or {}
    known = {
        "metadata.name": name(pod),
        "metadata.namespace": namespace(pod) or "",
        "metadata.uid": uid(pod),
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", "default"),
        "status.hostIP": status.get("hostIP", ""),
        "status.podIP": status.get("podIP", ""),
        "status.hostIPs": status.get("hostIP", ""),
        "status.podIPs": status.get("podIP", ""),
    }
    return str(known[path])


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def expand(text: str, environment: Mapping[str, str]) -> str:
    """`$(NAME)` of what was defined before; `$$` is a dollar; what is unknown stays."""

    def one(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return environment.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)", one, text)


def environment(pod: Object, container: Mapping[str, Any], base: Mapping[str, str], store: Any) -> dict[str, str]:
    """Raises NotYet where a ConfigMap or Secret is missing."""
    found = dict(base)
    for source in container.get("envFrom") or []:
        prefix = source.get("prefix", "")
        for kind, reference in (("configmaps", "configMapRef"), ("secrets", "secretRef")):
            if reference in source:
                data = _data(store, kind, namespace(pod), source[reference])
                found |= {prefix + key: value.decode() for key, value in data.items()}
    for one in container.get("env") or []:
        if "valueFrom" not in one:
            found[one["name"]] = expand(str(one.get("value") or ""), found)
            continue
        source = one["valueFrom"]
        if "fieldRef" in source:
            found[one["name"]] = field(pod, source["fieldRef"]["fieldPath"])
        elif "resourceFieldRef" in source:
            which, what = source["resourceFieldRef"]["resource"].split(".", 1)
            found[one["name"]] = str(((container.get("resources") or {}).get(which) or {}).get(what, 0))
        else:
            kind, reference = (
                ("configmaps", source["configMapKeyRef"])
                if "configMapKeyRef" in source
                else ("secrets", source["secretKeyRef"])
            )
            data = _data(store, kind, namespace(pod), reference)
            if reference["key"] in data:
                found[one["name"]] = data[reference["key"]].decode()
            elif not reference.get("optional"):
                raise NotYet(f"key {reference['key']} is not in {kind} {reference['name']}")
    return found


def _data(store: Any, kind: str, space: str | None, reference: Mapping[str, Any]) -> dict[str, bytes]:
    from kube_sim.problems import ApiProblem

    its_name = reference.get("name") or reference.get("secretName")
    try:
        obj = store.get(kind, space, its_name)
    except ApiProblem as problem:
        if problem.status == 404 and reference.get("optional"):
            return {}
        raise NotYet(f"{kind} {space}/{its_name} is not there") from problem
    found = {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}
    for key, value in (obj.get("data") or {}).items():
        found[key] = base64.b64decode(value) if kind == "secrets" else str(value).encode()
    return found | {key: value.encode() for key, value in (obj.get("stringData") or {}).items()}


class Volumes:
    """Of one pod. `folder`: its own on the node; `host`: the node's root."""

    def __init__(self, pod: Object, folder: Path, host: Path, store: Any) -> None:
        self._folder, self._host, self._store = folder, host, store
        self._paths: dict[str, Path] = {}
        for volume in pod["spec"].get("volumes") or []:
            self._paths[volume["name"]] = self._make(pod, volume)

    def _make(self, pod: Object, volume: Mapping[str, Any]) -> Path:
        if "hostPath" in volume:
            return self._of_host(volume["hostPath"])
        path = self._folder / "volumes" / volume["name"]
        path.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            path.chmod(0o777)
        elif not self._fill(pod, path, volume):
            raise NotYet(f"volume {volume['name']} is of a kind that is not simulated")
        return path

    def _of_host(self, given: Mapping[str, Any]) -> Path:
        path = given["path"].rstrip("/") or "/"
        if path == "/" or any(path == one or path.startswith(one + "/") for one in MACHINES):
            return Path(path)
        here = self._host / path.lstrip("/")
        kind = given.get("type") or ""
        if kind == "DirectoryOrCreate" or not kind:
            here.mkdir(parents=True, exist_ok=True)
        elif kind == "FileOrCreate":
            here.parent.mkdir(parents=True, exist_ok=True)
            here.touch()
        elif not here.exists():
            raise NotYet(f"hostPath {path} is not there, and its type is {kind}")
        return here

    def _fill(self, pod: Object, path: Path, volume: Mapping[str, Any]) -> bool:
        files = self._files(pod, volume)
        if files is None:
            return False
        for its_name, content in files.items():
            target = path / its_name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != content:
                target.write_bytes(content)
        return True

    def _files(self, pod: Object, volume: Mapping[str, Any]) -> dict[str, bytes] | None:
        if "secret" in volume:
            given = volume["secret"]
            return _items(_data(self._store, "secrets", namespace(pod), given), given)
        if "configMap" in volume:
            given = volume["configMap"]
            return _items(_data(self._store, "configmaps", namespace(pod), given), given)
        if "downwardAPI" in volume:
            return {
                one["path"]: field(pod, one["fieldRef"]["fieldPath"]).encode()
                for one in volume["downwardAPI"].get("items") or []
                if "fieldRef" in one
            }
        if "serviceAccountToken" in volume:
            return {volume["serviceAccountToken"].get("path", "token"): b"simulated"}
        if "projected" in volume:
            found: dict[str, bytes] = {}
            for source in volume["projected"].get("sources") or []:
                found |= self._files(pod, source) or {}
            return found
        return None

    def renew(self, pod: Object) -> None:
        """Labels and annotations may have changed."""
        for volume in pod["spec"].get("volumes") or []:
            if "downwardAPI" in volume:
                self._fill(pod, self._paths[volume["name"]], volume)

    def mounts(self, container: Mapping[str, Any], variables: Mapping[str, str]) -> list[dict[str, Any]]:
        """As `pod_launch` takes them."""
        found = []
        for one in container.get("volumeMounts") or []:
            source = self._paths[one["name"]]
            below = one.get("subPath") or expand(one.get("subPathExpr") or "", variables)
            if below:
                source = source / below
                if not source.exists():
                    source.mkdir(parents=True)
            found.append({"at": one["mountPath"], "from": str(source), "read_only": bool(one.get("readOnly"))})
        return found


def _items(data: dict[str, bytes], given: Mapping[str, Any]) -> dict[str, bytes]:
    if not given.get("items"):
        return data
    return {one["path"]: data[one["key"]] for one in given["items"] if one["key"] in data}
