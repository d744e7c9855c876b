"""A big fleet as it would stand in a real cluster, for measurements: nodes with GPUs, LeaderWorkerSets and their pods.

Objects are as large as real ones (a node has 50 images, conditions, some 50 labels). What is the same in many is one
and the same value in memory: nobody changes what the store holds.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

Object = dict[str, Any]
GPUS = 8
_START = "2026-01-01T00:00:00Z"
_DOMAIN = uuid.UUID("6f1c2e0a-0000-4000-8000-000000000000")


def uid_of(*words: object) -> str:
    """The same in every run."""
    return str(uuid.uuid5(_DOMAIN, "/".join(map(str, words))))


def _condition(kind: str, status: str, reason: str) -> Object:
    message = f"kubelet has {reason}"
    seen = {"lastHeartbeatTime": _START, "lastTransitionTime": _START}
    return {"type": kind, "status": status, **seen, "reason": reason, "message": message}


_IMAGES = [
    {
        "names": [f"registry.example/team/image-{n}@sha256:{n:064x}", f"registry.example/team/image-{n}:v{n}"],
        "sizeBytes": 1_000_000 * n,
    }
    for n in range(50)
]
_CONDITIONS = [
    _condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    _condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    _condition("PIDPressure", "False", "KubeletHasSufficientPID"),
    _condition("Ready", "True", "KubeletReady"),
]
_RESOURCES = {
    "cpu": "192",
    "memory": "2113528Ki",
    "nvidia.com/gpu": str(GPUS),
    "pods": "110",
    "ephemeral-storage": "9T",
}
_FEATURES = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{n}": "true" for n in range(40)}
_GPU = {
    "nvidia.com/gpu.product": "NVIDIA-H200",
    "nvidia.com/gpu.count": str(GPUS),
    "nvidia.com/gpu.memory": "143771",
    "nvidia.com/gpu.machine": "simulated",
    "nvidia.com/cuda.driver-version.full": "580.65.06",
    "nvidia.com/cuda.runtime-version.full": "13.0",
    "nvidia.com/mig.strategy": "none",
}
_SYSTEM = {
    "architecture": "amd64",
    "containerRuntimeVersion": "containerd://2.0.0",
    "kernelVersion": "6.8.0-40-generic",
    "kubeletVersion": "v1.32.0",
    "operatingSystem": "linux",
    "osImage": "Ubuntu 24.04 LTS",
}


def node(number: int) -> Object:
    name = f"node-{number:05d}"
    ip = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid_of("node", name),
            "creationTimestamp": _START,
            "labels": {**_FEATURES, **_GPU, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        },
        "spec": {"providerID": f"simulated://{name}"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}],
            "allocatable": _RESOURCES,
            "capacity": _RESOURCES,
            "conditions": _CONDITIONS,
            "images": _IMAGES,
            "nodeInfo": {**_SYSTEM, "bootID": uid_of("boot", name), "machineID": uid_of("machine", name)},
        },
    }


_LWS = "leaderworkerset.sigs.k8s.io"
_CONTAINER: Mapping[str, Any] = {
    "name": "engine",
    "image": "registry.example/engine:v1",
    "command": ["serve", "--model", "m", "--tensor-parallel-size", "8"],
    "env": [{"name": f"SETTING_{n}", "value": str(n)} for n in range(30)],
    "resources": {"limits": {"nvidia.com/gpu": str(GPUS)}, "requests": {"nvidia.com/gpu": str(GPUS)}},
}


def workload(number: int, size: int, namespace: str = "ml") -> Object:
    """A LeaderWorkerSet of one group."""
    name = f"model-{number:04d}"
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [_CONTAINER]}}
    return {
        "apiVersion": f"{_LWS.replace('.sigs.k8s.io', '.x-k8s.io')}/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid_of("lws", name),
            "creationTimestamp": _START,
            "generation": 1,
            "labels": {"app": name, "fleet": "simulated"},
        },
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": size, "workerTemplate": template}},
        "status": {"replicas": 1, "readyReplicas": 1},
    }


def pod(number: int, worker: int, size: int, on: str, namespace: str = "ml") -> Object:
    """Of that group; worker 0 is its leader."""
    name = f"model-{number:04d}"
    leader, own = f"{name}-0", f"{name}-0-{worker}" if worker else f"{name}-0"
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": leader if worker else name, "controller": True}
    owner["uid"] = uid_of("sts", owner["name"])
    labels = {
        "app": name,
        f"{_LWS}/name": name,
        f"{_LWS}/group-index": "0",
        f"{_LWS}/worker-index": str(worker),
        f"{_LWS}/group-key": uid_of("key", name),
    }
    ip = f"172.{16 + number // 4096}.{number // 16 % 256}.{(number % 16) * 16 + worker}"
    ready = [{"type": kind, "status": "True", "lastTransitionTime": _START} for kind in _POD_CONDITIONS]
    state = {"running": {"startedAt": _START}}
    status = {"name": "engine", "ready": True, "restartCount": 0, "state": state, "image": _CONTAINER["image"]}
    annotations = {f"{_LWS}/size": str(size), **({f"{_LWS}/leader-name": leader} if worker else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": own,
            "namespace": namespace,
            "uid": uid_of("pod", own),
            "creationTimestamp": _START,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": on, "containers": [_CONTAINER], "terminationGracePeriodSeconds": 30},
        "status": {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": ready,
            "containerStatuses": [{**status, "imageID": "", "containerID": f"containerd://{uid_of('c', own)}"}],
            "startTime": _START,
        },
    }


_POD_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def fleet(nodes: int, instances: int, size: int) -> Iterator[Object]:
    """`instances` groups of `size` pods, one a node, on nodes in turn (several pods share one where there are more
    pods than nodes)."""
    for number in range(nodes):
        yield node(number)
    for number in range(instances):
        yield workload(number, size)
        for worker in range(size):
            on = f"node-{(number * size + worker) % nodes:05d}"
            yield pod(number, worker, size, on)
