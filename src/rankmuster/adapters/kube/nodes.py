"""A node as the API server has it, trimmed; with the facts that make it another node when they change. Pure.

What changes by itself, or while somebody works on the node, is no fact: time stamps, and the states of the GPU
operator's driver upgrade and MIG manager. These two are kept among the labels: `unsettled` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from rankmuster.adapters.kube.fields import condition, flag, identity, moment, part, parts, text, texts, whole
from rankmuster.model.kube import DOMAIN, NodeView, TaintView

HOSTNAME = "kubernetes.io/hostname"
UPGRADE_STATE = "nvidia.com/gpu-driver-upgrade-state"
MIG_STATE = "nvidia.com/mig.config.state"
GPU = "nvidia.com/gpu"

KEPT = (HOSTNAME, UPGRADE_STATE, MIG_STATE)

_FACTS = re.compile(
    r"nvidia\.com/(gpu\.(product|family|memory|count|compute\.\w+|multiprocessors|machine|clique|mode|replicas"
    r"|sharing-strategy)"
    r"|cuda\.(driver|runtime)(-version)?\.\w+"
    r"|mig\.(capable|strategy|config)"
    r"|vgpu\.present)"
    r"|feature\.node\.kubernetes\.io/(kernel-version\.full|cpu-model\.\w+|system-os_release\.(ID|VERSION_ID)"
    r"|pci-[\w.]+\.present|custom-rdma\.\w+|memory-numa|network-sriov\.capable)"
)
"""Labels of GPU feature discovery, node feature discovery and the GPU operator (their documentation; sources of 2026).
`gpu.present` and `gpu.deploy.*` are the operator's switches, which it turns while it works."""

INFO = ("kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion", "bootID", "architecture")
"""Of status.nodeInfo. Another bootID is a reboot, after which anything may be another."""


def node_view(raw: Mapping[str, Any], label_keys: Collection[str] = ()) -> NodeView:
    """`label_keys`: labels to keep besides. Raises ValueError where its name or UID is missing."""
    _, name, uid = identity(raw, namespaced=False)
    labels = texts(raw, "metadata", "labels")
    return NodeView(
        name=name,
        uid=uid,
        created=moment(raw, "metadata", "creationTimestamp") or 0.0,
        resource_version=text(raw, "metadata", "resourceVersion") or "",
        ready=text(condition(raw, "Ready"), "status") == "True",
        unschedulable=flag(raw, "spec", "unschedulable"),
        deleting=text(raw, "metadata", "deletionTimestamp") is not None,
        gpus=whole(raw, "status", "allocatable", GPU) or 0,
        labels={key: labels[key] for key in (*KEPT, *label_keys) if key in labels},
        annotations=texts(raw, "metadata", "annotations", prefixes=(f"{DOMAIN}/",)),
        taints=tuple(_taints(raw)),
        facts=_facts(raw, labels),
        address=_address(raw),
    )


def unsettled(node: NodeView) -> str:
    """Who works on the node now, so that it is not judged or acted on; empty where nobody says so."""
    upgrade = node.labels.get(UPGRADE_STATE, "")
    if upgrade not in ("", "upgrade-done"):
        return f"the GPU operator upgrades the driver of {node.name} ({upgrade})"
    mig = node.labels.get(MIG_STATE, "")
    if mig in ("pending", "rebooting"):
        return f"the MIG manager changes the GPUs of {node.name} ({mig})"
    return ""


def _facts(raw: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, str]:
    facts = {key: value for key, value in labels.items() if _FACTS.fullmatch(key)}
    for key in INFO:
        value = text(raw, "status", "nodeInfo", key)
        if value is not None:
            facts[key] = value
    for key in part(raw, "status", "allocatable"):
        count = whole(raw, "status", "allocatable", key)
        if isinstance(key, str) and key.startswith("nvidia.com/") and count is not None:
            facts[f"allocatable {key}"] = str(count)
    return dict(sorted(facts.items()))


def _taints(raw: Mapping[str, Any]) -> list[TaintView]:
    found = []
    for one in parts(raw, "spec", "taints"):
        key = text(one, "key")
        if key is not None:
            effect = text(one, "effect") or "NoSchedule"
            found.append(TaintView(key=key, value=text(one, "value") or "", effect=effect))
    return found


def _address(raw: Mapping[str, Any]) -> str | None:
    """Its internal address, else its host name."""
    told = {text(one, "type"): text(one, "address") for one in reversed(parts(raw, "status", "addresses"))}
    return told.get("InternalIP") or told.get("Hostname")
