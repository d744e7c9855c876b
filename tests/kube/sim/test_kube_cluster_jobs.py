"""Jobs, JobSets and Deployments end, restart and are counted as their controllers do it."""

from __future__ import annotations

import pytest

from kube_sim.clock import VirtualClock
from kube_sim.cluster import Cluster
from kube_sim.controllers.endpoint_slice import ready_addresses
from kube_sim.kubelet import Times
from kube_sim.objects import condition, is_true, labels, name, uid
from kube_sim.store import Store
from kube_workloads import job_set, pod_template, workload

JOB_SETS = "jobsets.jobset.x-k8s.io"


@pytest.fixture
def cluster():
    clock = VirtualClock()
    with Cluster(Store(clock), clock) as made:
        for one in range(4):
            made.node(f"node-{one}")
        yield made


def job(cluster: Cluster, its_name: str = "test") -> dict:
    return cluster.store.get("jobs.batch", "serving", its_name)


def make_job(cluster: Cluster, times: Times, **spec) -> None:
    cluster.kubelet.behave = lambda _: times
    cluster.store.create(workload("Job", "test", template=pod_template(restartPolicy="Never"), **spec))


def test_an_indexed_job_is_complete_when_each_index_has_succeeded(cluster):
    make_job(cluster, Times(run=5, message="ok"), completions=3, parallelism=2, completionMode="Indexed")
    assert cluster.run_until(lambda: is_true(job(cluster), "Complete"))
    assert job(cluster)["status"]["completedIndexes"] == "0-2"
    pods = cluster.store.list("pods", "serving")
    assert sorted(labels(one)["batch.kubernetes.io/job-completion-index"] for one in pods) == ["0", "1", "2"]
    assert {one["status"]["containerStatuses"][0]["state"]["terminated"]["message"] for one in pods} == {"ok"}
    assert not any(one["metadata"].get("finalizers") for one in pods)


def test_a_job_fails_after_its_retries_with_growing_pauses(cluster):
    make_job(cluster, Times(run=1, exit_code=3), backoffLimit=2)
    begun = cluster.clock()
    assert cluster.run_until(lambda: is_true(job(cluster), "Failed"))
    assert condition(job(cluster), "Failed")["reason"] == "BackoffLimitExceeded"
    assert job(cluster)["status"]["failed"] == 3
    assert cluster.clock() - begun >= 10 + 20


def test_a_job_that_hangs_or_never_starts_fails_at_its_deadline(cluster):
    make_job(cluster, Times(start=None), activeDeadlineSeconds=60)
    assert cluster.run_until(lambda: is_true(job(cluster), "Failed"))
    assert condition(job(cluster), "Failed")["reason"] == "DeadlineExceeded"
    cluster.run(60)
    assert cluster.store.list("pods", "serving") == []


def test_a_disruption_can_be_left_out_of_the_count(cluster):
    ignore = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
    make_job(cluster, Times(), backoffLimit=0, podFailurePolicy=ignore)
    cluster.run(10)
    cluster.kubelet.evict("serving", name(cluster.store.list("pods", "serving")[0]))
    cluster.run(60)
    assert not is_true(job(cluster), "Failed")
    assert sorted(one["status"]["phase"] for one in cluster.store.list("pods", "serving")) == ["Failed", "Running"]


def test_a_finished_job_goes_with_its_pods_when_its_time_is_over(cluster):
    make_job(cluster, Times(run=1), ttlSecondsAfterFinished=100)
    cluster.run(50)
    assert is_true(job(cluster), "Complete")
    cluster.run(100)
    assert cluster.store.list("jobs.batch", "serving") == cluster.store.list("pods", "serving") == []


def test_a_job_set_restarts_all_its_jobs_when_one_has_failed_until_it_may_no_more(cluster):
    cluster.store.create(job_set(replicas=2, pods=2, failurePolicy={"maxRestarts": 1}))

    def running() -> list[dict]:
        return [one for one in cluster.store.list("pods", "serving") if is_true(one, "Ready")]

    assert cluster.run_until(lambda: len(running()) == 4)
    before = {uid(one) for one in running()}
    cluster.kubelet.crash("serving", name(running()[0]), exit_code=134)
    assert cluster.run_until(lambda: len(running()) == 4 and not before & {uid(one) for one in running()})
    assert {labels(one)["jobset.sigs.k8s.io/restart-attempt"] for one in running()} == {"1"}
    cluster.kubelet.crash("serving", name(running()[0]))
    assert cluster.run_until(lambda: is_true(cluster.store.get(JOB_SETS, "serving", "llm"), "Failed"))
    failed = condition(cluster.store.get(JOB_SETS, "serving", "llm"), "Failed")
    assert failed["reason"] == "ReachedMaxRestarts"


def test_a_rule_may_restart_one_job_alone(cluster):
    policy = {"maxRestarts": 3, "rules": [{"name": "one", "action": "RestartJob", "onJobFailureReasons": []}]}
    cluster.store.create(job_set(replicas=2, pods=1, failurePolicy=policy))
    cluster.run(30)
    before = {name(one): uid(one) for one in cluster.store.list("jobs.batch", "serving")}
    cluster.kubelet.crash("serving", name(cluster.store.list("pods", "serving")[0]))
    cluster.run(60)
    after = {name(one): uid(one) for one in cluster.store.list("jobs.batch", "serving")}
    assert [one for one in after if after[one] != before[one]] == ["llm-workers-0"]


def test_a_deployment_replaces_a_deleted_pod_at_once_and_rolls_to_a_new_template(cluster):
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "llm", "namespace": "serving"},
        "spec": {"selector": {"app": "llm"}, "ports": [{"port": 8000}]},
    }
    cluster.store.create(service)
    cluster.store.create(workload("Deployment", replicas=3))
    assert cluster.run_until(lambda: len(ready_addresses(cluster, "serving", "llm")) == 3)
    victim = cluster.store.list("pods", "serving")[0]
    cluster.store.delete("pods", "serving", name(victim))
    cluster.settle()
    assert len(cluster.store.list("pods", "serving")) == 4, "the old one still ends, the new one is there"
    assert len(ready_addresses(cluster, "serving", "llm")) == 2
    assert cluster.run_until(lambda: len(ready_addresses(cluster, "serving", "llm")) == 3)

    made = cluster.store.get("deployments.apps", "serving", "llm")
    made["spec"]["template"]["spec"]["containers"][0]["image"] = "engine:2"
    cluster.store.update(made)
    least = []

    def rolled() -> bool:
        least.append(len(ready_addresses(cluster, "serving", "llm")))
        pods = cluster.store.list("pods", "serving")
        return len(pods) == 3 and {one["spec"]["containers"][0]["image"] for one in pods} == {"engine:2"}

    assert cluster.run_until(rolled)
    assert min(least) == 3, "a quarter of three, rounded down, may be missing: none"


def test_a_daemon_set_is_on_each_node_that_lets_it(cluster):
    cluster.node("node-9", taints=[{"key": "closed", "effect": "NoSchedule"}])
    cluster.store.create(workload("DaemonSet", "agent", template=pod_template(gpus=0)))
    assert cluster.run_until(lambda: len(cluster.store.list("pods", "serving")) == 4)
    cluster.store.patch("nodes", None, "node-9", {"spec": {"taints": None}})
    assert cluster.run_until(lambda: len(cluster.store.list("pods", "serving")) == 5)
    cluster.store.delete("nodes", None, "node-9")
    assert cluster.run_until(lambda: len(cluster.store.list("pods", "serving")) == 4)
