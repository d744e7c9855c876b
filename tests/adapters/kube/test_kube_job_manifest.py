"""The Job of an admission as an object: valid for Kubernetes, bound to its nodes, with nothing it does not need."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from rankmuster.adapters.kube.job_manifest import SHORT_SECONDS, JobOrder, job, service
from rankmuster.adapters.kube.job_shape import JobShape, Toleration
from rankmuster.model.kube import ADMISSION_TAINT, FENCE_TAINT

VERSIONS = ("1.34", "1.35", "1.36", "1.37")

ORDER = JobOrder(
    name="admit-n1-0123456789-0-1",
    namespace="rankmuster",
    image="registry.example/rankmuster@sha256:" + "a" * 64,
    nodes=("n1.example",),
    gpus=8,
    belongs_to="uid-1",
)
FULL = JobShape(
    pull_secrets=("pull",),
    runtime_class="nvidia",
    priority_class="low",
    tolerations=(Toleration(key="pool", operator="Equal", value="gpu", effect="NoSchedule"), Toleration()),
    labels={"team": "infra"},
    annotations={"sidecar.istio.io/inject": "false"},
    resources={"rdma/hca": "1"},
    host_network=True,
    capabilities=("IPC_LOCK",),
    environment={"NCCL_IB_HCA": "mlx5"},
    kernel_log="/var/log/kern.log",
    rails=("0=mlx5_0", "1=mlx5_1"),
)


def pair_of(**changes: Any) -> JobOrder:
    values = {name: getattr(ORDER, name) for name in ("name", "namespace", "image", "gpus", "belongs_to")}
    return JobOrder(**{**values, "nodes": ("n1.example", "n2.example"), **changes})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", [JobShape(), FULL], ids=["default", "full"])
def test_it_is_valid(version: str, shape: JobShape) -> None:
    for order in (ORDER, pair_of()):
        kubernetes_validate.validate(job(order, shape), version, strict=True)
    kubernetes_validate.validate(service(pair_of(), "uid"), version, strict=True)


def pod(order: JobOrder = ORDER, shape: JobShape | None = None) -> dict[str, Any]:
    found: dict[str, Any] = job(order, shape or JobShape())["spec"]["template"]["spec"]
    return found


def test_it_is_bound_to_its_node_by_affinity_and_takes_all_its_gpus() -> None:
    spec = pod()
    assert "nodeName" not in spec
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["n1.example"]}]
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}


def test_a_pair_is_over_both_nodes_one_pod_on_each() -> None:
    body = job(pair_of(), JobShape())
    spec = body["spec"]["template"]["spec"]
    assert (body["spec"]["completionMode"], body["spec"]["completions"], body["spec"]["parallelism"]) == (
        "Indexed",
        2,
        2,
    )
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["n1.example"], ["n2.example"]]
    (anti,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert anti["topologyKey"] == "kubernetes.io/hostname"
    assert spec["subdomain"] == service(pair_of(), "uid")["metadata"]["name"]
    assert service(pair_of(), "uid")["spec"]["publishNotReadyAddresses"] is True


def test_it_ends_by_itself_and_is_never_repeated_by_kubernetes() -> None:
    shape = JobShape(seconds=900.0, start_seconds=300.0)
    spec = job(ORDER, shape)["spec"]
    assert (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert spec["activeDeadlineSeconds"] > 1_200
    assert spec["ttlSecondsAfterFinished"] == 86_400
    command = spec["template"]["spec"]["containers"][0]["command"]
    assert command[command.index("--seconds") + 1] == "900"


def test_it_may_write_only_its_scratch_folder_and_knows_no_token() -> None:
    spec = pod()
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not any(spec.get(key) for key in ("hostIPC", "hostPID", "hostNetwork"))
    assert {one["mountPath"] for one in container["volumeMounts"]} == {"/tmp", "/dev/shm"}
    assert not any("hostPath" in one for one in spec["volumes"])


def test_taints_of_ours_are_tolerated_and_no_other_unless_the_settings_say_so() -> None:
    keys = [one.get("key") for one in pod(shape=JobShape(tolerations=()))["tolerations"]]
    assert keys == [ADMISSION_TAINT]
    retest = pair_of(tolerates=(FENCE_TAINT,))
    assert {one.get("key") for one in pod(retest)["tolerations"]} == {ADMISSION_TAINT, FENCE_TAINT, "nvidia.com/gpu"}


def test_a_short_test_takes_one_run() -> None:
    order = JobOrder(**{**{one: getattr(ORDER, one) for one in ORDER.__slots__}, "short": True})
    command = pod(order)["containers"][0]["command"]
    assert command[command.index("--runs") + 1] == "1"
    assert command[command.index("--seconds") + 1] == f"{SHORT_SECONDS:.0f}"
    assert command[command.index("--image-digest") + 1] == "sha256:" + "a" * 64
