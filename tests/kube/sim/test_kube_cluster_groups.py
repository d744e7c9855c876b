"""Groups of pods are made anew as their controllers do it: that is what the controller's actions rest on."""

from __future__ import annotations

import pytest

from kube_sim.clock import VirtualClock
from kube_sim.cluster import Cluster
from kube_sim.objects import is_true, labels, name, uid
from kube_sim.store import Store
from kube_workloads import leader_worker_set, pod_template, workload


@pytest.fixture
def cluster():
    clock = VirtualClock()
    with Cluster(Store(clock), clock) as made:
        for one in range(3):
            made.node(f"node-{one}")
        yield made


def uids(cluster: Cluster) -> dict[str, str]:
    return {name(one): uid(one) for one in cluster.cache.all("pods")}


def all_ready(cluster: Cluster, count: int) -> bool:
    pods = cluster.cache.all("pods")
    return len(pods) == count and all(is_true(one, "Ready") for one in pods)


def test_a_restarted_container_has_the_whole_group_made_anew_and_no_other_group(cluster):
    for one in range(3, 6):
        cluster.node(f"node-{one}")
    cluster.store.create(leader_worker_set(replicas=2))
    assert cluster.run_until(lambda: all_ready(cluster, 4))
    before = uids(cluster)
    order = []
    cluster.store.subscribe("pods", lambda type_, obj: order.append((type_, name(obj))))

    cluster.kubelet.crash("serving", "llm-0-1", exit_code=137, reason="OOMKilled")
    assert cluster.run_until(lambda: all_ready(cluster, 4) and uids(cluster) != before)

    after = uids(cluster)
    assert {one for one in after if after[one] != before[one]} == {"llm-0", "llm-0-1"}
    of_group = [(type_, one) for type_, one in order if type_ != "MODIFIED"]
    assert of_group == [("DELETED", "llm-0-1"), ("DELETED", "llm-0"), ("ADDED", "llm-0"), ("ADDED", "llm-0-1")]
    told = [one for one in cluster.cache.all("events") if one["reason"] == "RecreateGroup"]
    assert [one["message"] for one in told] == [
        "Worker pod llm-0-1 failed, deleted leader pod llm-0 to recreate group 0"
    ]


@pytest.mark.parametrize("victim", ["llm-0", "llm-0-1"])
def test_a_deleted_pod_takes_its_group_with_it_once(cluster, victim):
    cluster.store.create(leader_worker_set())
    assert cluster.run_until(lambda: all_ready(cluster, 2))
    before = uids(cluster)
    cluster.store.delete("pods", "serving", victim, uid=before[victim], propagation="Foreground")
    assert cluster.run_until(lambda: all_ready(cluster, 2) and not set(uids(cluster).values()) & set(before.values()))
    after = uids(cluster)
    cluster.run(300)
    assert uids(cluster) == after


def test_without_the_policy_a_container_restarts_in_place(cluster):
    cluster.store.create(leader_worker_set(restart_policy="None"))
    assert cluster.run_until(lambda: all_ready(cluster, 2))
    before = uids(cluster)
    cluster.kubelet.crash("serving", "llm-0-1")
    cluster.run(60)
    assert uids(cluster) == before
    status = cluster.store.get("pods", "serving", "llm-0-1")["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert all_ready(cluster, 2)


def test_after_start_a_group_that_still_starts_is_left_alone(cluster):
    template = pod_template()
    cluster.store.create(leader_worker_set(restart_policy="RecreateGroupAfterStart", size=4, template=template))
    cluster.run(60)  # three nodes: one worker finds no place
    before = uids(cluster)
    assert len(before) == 4
    cluster.kubelet.crash("serving", "llm-0")
    cluster.run(60)
    assert uids(cluster) == before


def test_pods_know_their_place_in_the_group(cluster):
    cluster.store.create(leader_worker_set(replicas=1))
    assert cluster.run_until(lambda: all_ready(cluster, 2))
    worker = cluster.store.get("pods", "serving", "llm-0-1")
    assert labels(worker)["leaderworkerset.sigs.k8s.io/worker-index"] == "1"
    assert worker["metadata"]["annotations"]["leaderworkerset.sigs.k8s.io/leader-name"] == "llm-0"
    environment = {one["name"]: one["value"] for one in worker["spec"]["containers"][0]["env"]}
    assert environment == {
        "LWS_LEADER_ADDRESS": "llm-0.llm.serving",
        "LWS_GROUP_SIZE": "2",
        "LWS_WORKER_INDEX": "1",
    }
    assert (
        cluster.store.get("leaderworkersets.leaderworkerset.x-k8s.io", "serving", "llm")["status"]["readyReplicas"] == 1
    )


def test_a_pod_on_a_lost_node_blocks_its_successor_until_the_node_is_back(cluster):
    cluster.store.create(workload("StatefulSet", replicas=2))
    assert cluster.run_until(lambda: all_ready(cluster, 2))
    pod = cluster.store.get("pods", "serving", "llm-1")
    node = pod["spec"]["nodeName"]
    cluster.fail_node(node)
    cluster.run(41)
    assert not is_true(cluster.store.get("pods", "serving", "llm-1"), "Ready")
    taints = cluster.store.get("nodes", None, node)["spec"]["taints"]
    assert {one["effect"] for one in taints} == {"NoSchedule", "NoExecute"}
    cluster.run(900)
    stuck = cluster.store.get("pods", "serving", "llm-1")
    assert (uid(stuck), bool(stuck["metadata"].get("deletionTimestamp"))) == (uid(pod), True)
    cluster.revive_node(node)
    assert cluster.run_until(lambda: all_ready(cluster, 2))
    assert uid(cluster.store.get("pods", "serving", "llm-1")) != uid(pod)


def test_a_readiness_gate_alone_makes_a_pod_unready(cluster):
    template = pod_template(readinessGates=[{"conditionType": "rankmuster.dev/serving"}])
    cluster.store.create(workload("StatefulSet", replicas=1, template=template))
    cluster.run(30)

    def gate(status: str) -> bool:
        patch = {"status": {"conditions": [{"type": "rankmuster.dev/serving", "status": status}]}}
        cluster.store.patch("pods", "serving", "llm-0", patch, kind="strategic", subresource="status")
        cluster.settle()
        return is_true(cluster.store.get("pods", "serving", "llm-0"), "Ready")

    assert not all_ready(cluster, 1), "an absent gate counts as False"
    assert gate("True")
    assert not gate("False")
    assert is_true(cluster.store.get("pods", "serving", "llm-0"), "ContainersReady")
