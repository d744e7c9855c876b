"""Pods and nodes are read whatever is missing in them; only who they are has to be there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import kube_objects as objects
from rankmuster.adapters.kube.nodes import UPGRADE_STATE, node_view, unsettled
from rankmuster.adapters.kube.pods import ended, engines, pod_view
from rankmuster.model.kube import OwnerView, TaintView


def test_a_pod_keeps_what_it_is_and_nothing_else() -> None:
    raw = objects.pod(
        "llm-0", "u1", labels={"app": "llm"}, annotations={"kubectl.kubernetes.io/last-applied": "x" * 9000}, restarts=2
    )
    raw["spec"]["readinessGates"] = [{"conditionType": "rankmuster.dev/serving"}, {"conditionType": "other/one"}]
    raw["status"]["conditions"] += [
        {"type": "other/one", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"},
    ]
    seen = pod_view(raw)
    assert (seen.namespace, seen.name, seen.uid, seen.node) == ("serve", "llm-0", "u1", "node-a")
    assert seen.created == 1_796_054_400.0
    assert seen.gates == {"rankmuster.dev/serving": None, "other/one": True}
    assert seen.disruption == "DeletionByTaintManager"
    assert seen.annotations == {}
    assert seen.owner == OwnerView(kind="StatefulSet", name="llm", uid="sts-uid")
    assert [(one.name, one.init, one.gpus, one.restarts) for one in seen.containers] == [
        ("rankmuster", True, 0, 0),
        ("vllm", False, 8, 2),
        ("shipper", False, 0, 5),
    ]
    assert [one.name for one in engines(seen)] == ["vllm"]
    assert [one.name for one in engines(seen, "shipper")] == ["shipper"]
    assert engines(seen, "none") == ()


def test_how_a_container_ended_is_kept_also_while_it_runs_again() -> None:
    raw = objects.pod("llm-0", "u1")
    raw["status"]["containerStatuses"][0]["lastState"] = {
        "terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "finishedAt": "2026-11-30T16:00:09.5Z"}
    }
    engine = engines(pod_view(raw))[0]
    assert engine.running
    assert (engine.exit_code, engine.signal, engine.reason) == (137, 9, "OOMKilled")
    assert engine.ended_at == 1_796_054_409.5


def test_an_evicted_pod_has_ended() -> None:
    raw = objects.pod("llm-0", "u1", phase="Failed")
    raw["status"]["reason"] = "Evicted"
    assert ended(pod_view(raw))
    assert pod_view(raw).reason == "Evicted"


def _places(raw: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    return [path, *(place for key, value in inner for place in _places(value, (*path, key)))]


NEEDED = {("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid"), ()}


@pytest.mark.parametrize("odd", [None, [], {}, "x", 3, [None], {"a": None}, True])
def test_any_field_may_be_odd(odd: Any) -> None:
    raw = objects.pod("llm-0", "u1", restarts=1)
    raw["spec"]["readinessGates"] = [{"conditionType": "rankmuster.dev/serving"}]
    for place in _places(raw):
        if place in NEEDED:
            continue
        spoilt = copy.deepcopy(raw)
        inner = spoilt
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = odd
        assert pod_view(spoilt).uid == "u1", place


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
@pytest.mark.parametrize("odd", [None, "", 7, ["x"]])
def test_without_identity_there_is_no_pod(field: str, odd: Any) -> None:
    raw = objects.pod("llm-0", "u1")
    raw["metadata"][field] = odd
    with pytest.raises(ValueError, match=f"no metadata.{field}"):
        pod_view(raw)


def _node(**labels: str) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {
            "name": "node-a",
            "uid": "n1",
            "labels": {
                "kubernetes.io/hostname": "a",
                "pool": "h200",
                "secret/thing": "x",
                "nvidia.com/gpu.product": "NVIDIA-H200",
                "nvidia.com/gfd.timestamp": "1796054400",
                "nvidia.com/gpu.deploy.driver": "true",
                "nvidia.com/cuda.driver-version.full": "580.95.05",
                "nvidia.com/mig.config": "all-disabled",
                "feature.node.kubernetes.io/kernel-version.full": "6.8.0",
                "feature.node.kubernetes.io/cpu-cpuid.AVX": "true",
                "feature.node.kubernetes.io/pci-0302_10de.present": "true",
                **labels,
            },
            "annotations": {"rankmuster.dev/fenced-by": "{}", "nfd.node.kubernetes.io/feature-labels": "..."},
        },
        "spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoExecute"}, {"effect": "x"}, None]},
        "status": {
            "allocatable": {"nvidia.com/gpu": "7", "cpu": "64", "memory": "512Gi"},
            "addresses": [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "192.0.2.1"}],
            "nodeInfo": {"kernelVersion": "6.8.0", "bootID": "b1", "machineID": "m"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_a_node_is_what_its_communication_path_is_made_of() -> None:
    seen = node_view(_node(), ["pool", "absent"])
    assert seen.facts == {
        "allocatable nvidia.com/gpu": "7",
        "bootID": "b1",
        "feature.node.kubernetes.io/kernel-version.full": "6.8.0",
        "feature.node.kubernetes.io/pci-0302_10de.present": "true",
        "kernelVersion": "6.8.0",
        "nvidia.com/cuda.driver-version.full": "580.95.05",
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "nvidia.com/mig.config": "all-disabled",
    }
    assert seen.labels == {"kubernetes.io/hostname": "a", "pool": "h200"}
    assert seen.taints == (TaintView(key="a", effect="NoExecute"),)
    assert (seen.gpus, seen.ready, seen.unschedulable, seen.address) == (7, True, True, "192.0.2.1")
    assert list(seen.annotations) == ["rankmuster.dev/fenced-by"]


def test_a_node_on_which_the_gpu_operator_works_is_unsettled_and_is_the_same_node() -> None:
    assert unsettled(node_view(_node())) == ""
    assert unsettled(node_view(_node(**{UPGRADE_STATE: "upgrade-done"}))) == ""
    busy = node_view(_node(**{UPGRADE_STATE: "drain-required"}))
    assert "drain-required" in unsettled(busy)
    assert busy.facts == node_view(_node()).facts
    assert "pending" in unsettled(node_view(_node(**{"nvidia.com/mig.config.state": "pending"})))


def test_any_field_of_a_node_may_be_odd() -> None:
    odd: Any
    for odd in (None, [], "x", {"a": None}):
        raw = {"metadata": {"name": "node-a", "uid": "n1", "labels": odd}, "spec": odd, "status": odd}
        assert node_view(raw).facts == {}
    with pytest.raises(ValueError, match=r"no metadata\.uid"):
        node_view({"kind": "Node", "metadata": {"name": "node-a"}})
