"""Nodes as their kubelets register them, with addresses that no two share."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from kube_sim.objects import GPU, Object, set_condition


class Addresses:
    """`real`: within the one network that processes of pods have (`pod_network`)."""

    def __init__(self, *, real: bool) -> None:
        self._real = real
        self._nodes: dict[str, int] = {}
        self._pods: dict[str, int] = {}

    def node(self, name: str) -> str:
        index = self._nodes.setdefault(name, len(self._nodes) + 1)
        return f"10.244.{index}.1" if self._real else f"172.16.{index // 250}.{index % 250 + 1}"

    def pod(self, node: str) -> str:
        """A new one on that node."""
        self.node(node)
        index = self._nodes[node]
        count = self._pods[node] = self._pods.get(node, 0) + 1
        if self._real:
            return f"10.244.{index}.{count % 250 + 2}"
        return f"10.{index // 250}.{index % 250}.{count % 253 + 2}"


def node_object(
    name: str,
    gpus: int,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    annotations: Mapping[str, str],
    address: str,
    at: float,
) -> Object:
    """Of one that has just joined and is ready. Labels of hostname, and those of GPUs as GFD writes them."""
    of_gpus = (
        {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": "NVIDIA-H200",
            "nvidia.com/gpu.count": str(gpus),
            "nvidia.com/cuda.driver-version.full": "580.65.06",
        }
        if gpus
        else {}
    )
    resources = {"cpu": "192", "memory": "2000Gi", "pods": "250", GPU: str(gpus)}
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                **of_gpus, **labels,
            },
            "annotations": dict(annotations),
        },
        "spec": {"taints": [dict(one) for one in taints]} if taints else {},
        "status": {
            "capacity": dict(resources),
            "allocatable": dict(resources),
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "bootID": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}/{at}")),
                "machineID": uuid.uuid5(uuid.NAMESPACE_DNS, name).hex,
                "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_OID, name)),
                "kernelVersion": "6.8.0-60-generic",
                "osImage": "Ubuntu 24.04.3 LTS",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": "v1.34.2",
                "kubeProxyVersion": "v1.34.2",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }  # fmt: skip
    ready(node, at)
    return node


def ready(node: Object, at: float) -> None:
    """As a kubelet that is well tells."""
    set_condition(node, "MemoryPressure", False, at, "KubeletHasSufficientMemory")
    set_condition(node, "DiskPressure", False, at, "KubeletHasNoDiskPressure")
    set_condition(node, "PIDPressure", False, at, "KubeletHasSufficientPID")
    set_condition(node, "Ready", True, at, "KubeletReady", "kubelet is posting ready status")


def lost(node: Object, at: float) -> None:
    """As the node controller writes when nothing has come for its grace period."""
    for one in (node.get("status") or {}).get("conditions") or []:
        kept: Any = one["type"]
        set_condition(node, kept, "Unknown", at, "NodeStatusUnknown", "Kubelet stopped posting node status.")
