"""Which pods are one instance, which of them stands for its start, and when it is left alone."""

from __future__ import annotations

from typing import Any

import kube_objects as objects
from rankmuster.adapters.kube.instances import instances
from rankmuster.adapters.kube.naming import anchor_uid, incarnation_of, instance_name, profile_config_map
from rankmuster.adapters.kube.pods import pod_view
from rankmuster.adapters.kube.workloads import WorkloadView, workload_view
from rankmuster.model.kube import Grouping, InstanceView, WorkloadKind

LWS, JOB_SET = WorkloadKind.LEADER_WORKER_SET, WorkloadKind.JOB_SET
STATEFUL_SET, DEPLOYMENT = WorkloadKind.STATEFUL_SET, WorkloadKind.DEPLOYMENT


def lws(replicas: int = 1, **more: Any) -> WorkloadView:
    spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": 2}}
    return workload_view(LWS, objects.workload("LeaderWorkerSet", "lws-uid", spec, **more))


def stateful_set(replicas: int = 2, **more: Any) -> WorkloadView:
    return workload_view(STATEFUL_SET, objects.workload("StatefulSet", "sts-uid", {"replicas": replicas}, **more))


def job_set(**more: Any) -> WorkloadView:
    jobs = [{"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2}}}]
    return workload_view(JOB_SET, objects.workload("JobSet", "js-uid", {"replicatedJobs": jobs}, **more))


def seen(raw: list[dict[str, Any]], *workloads: WorkloadView, grouping: Grouping = Grouping.AUTO) -> list[InstanceView]:
    return list(instances([pod_view(one) for one in raw], workloads, grouping))


def one(raw: list[dict[str, Any]], *workloads: WorkloadView, grouping: Grouping = Grouping.AUTO) -> InstanceView:
    (found,) = seen(raw, *workloads, grouping=grouping)
    return found


def test_each_group_of_a_leader_worker_set_is_an_instance_that_its_leader_stands_for() -> None:
    raw = [objects.group_pod(1, 1, "d"), objects.group_pod(0, 0, "a"), objects.group_pod(0, 1, "b")]
    first, second = seen([*raw, objects.group_pod(1, 0, "c", restarts=3)], lws(2))
    assert (first.name, first.index, first.size, incarnation_of(first)) == ("serve.llm.0", "0", 2, "a")
    assert [pod.uid for pod in first.pods] == ["a", "b"]
    assert (second.name, incarnation_of(second), second.problem) == ("serve.llm.1", "c.r3", "")
    assert anchor_uid("c.r3") == "c"
    assert incarnation_of(second, "shipper") == "c.r5"


def test_the_incarnation_is_there_before_the_workers_are() -> None:
    found = one([objects.group_pod(0, 0, "a", phase="Pending", ready=False)], lws())
    assert (incarnation_of(found), found.size, len(found.pods), found.problem) == ("a", 2, 1, "")


def test_a_group_without_pods_is_there_and_has_no_incarnation() -> None:
    found = one([], lws())
    assert (found.name, found.anchor, found.pods, incarnation_of(found)) == ("serve.llm.0", None, (), None)


def test_what_goes_stands_back_behind_what_lives() -> None:
    old = objects.group_pod(0, 0, "old", deleting=True)
    found = one([old, objects.group_pod(0, 0, "new")], lws())
    assert (incarnation_of(found), len(found.pods), found.problem) == ("new", 2, "")
    assert incarnation_of(one([old], lws())) == "old"


def test_a_whole_job_set_is_an_instance() -> None:
    raw = [objects.job_pod(job, place, f"u{job}{place}") for job in (1, 0) for place in (1, 0)]
    found = one(raw, job_set())
    assert (found.name, found.size, incarnation_of(found), found.problem) == ("serve.llm", 4, "u00", "")
    assert incarnation_of(one([objects.job_pod(0, 1, "u01"), objects.job_pod(1, 0, "u10")], job_set())) is None


def test_of_a_restarted_job_set_the_newest_attempt_counts() -> None:
    raw = [objects.job_pod(0, 0, "old"), objects.job_pod(0, 0, "new", attempt=1), objects.job_pod(0, 1, "x", attempt=1)]
    found = one(raw, job_set())
    assert (incarnation_of(found), found.problem) == ("new", "")


def test_pods_of_an_earlier_job_set_of_the_name_are_passed_over() -> None:
    raw = objects.job_pod(0, 0, "u")
    raw["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-uid"] = "another"
    assert one([raw], job_set()).pods == ()


def test_a_whole_stateful_set_is_an_instance() -> None:
    raw = [objects.pod("llm-1", "b"), objects.pod("llm-0", "a"), objects.pod("llm-0-other", "z", owner=None)]
    found = one(raw, stateful_set())
    assert (found.name, found.size, incarnation_of(found), len(found.pods)) == ("serve.llm", 2, "a", 2)
    later = stateful_set(2)
    later = workload_view(
        STATEFUL_SET,
        objects.workload("StatefulSet", "sts-uid", {"replicas": 2, "ordinals": {"start": 1}}),
    )
    assert incarnation_of(one([raw[0]], later)) == "b"


def test_pods_of_another_stateful_set_of_the_name_are_passed_over() -> None:
    assert one([objects.pod("llm-0", "a", owner=("StatefulSet", "llm", "another"))], stateful_set()).pods == ()


def test_stateful_sets_inside_of_a_leader_worker_set_are_no_instances() -> None:
    owner = {"ownerReferences": [{"kind": "LeaderWorkerSet", "name": "llm", "uid": "lws-uid", "controller": True}]}
    assert len(seen([objects.group_pod(0, 0, "a")], lws(), stateful_set(metadata=owner))) == 1


def deployed(name: str, uid: str, **more: Any) -> dict[str, Any]:
    owner = ("ReplicaSet", "llm-5d9c", "rs-uid")
    return objects.pod(name, uid, labels={"pod-template-hash": "5d9c"}, owner=owner, **more)


def deployment(replicas: int = 2) -> WorkloadView:
    return workload_view(DEPLOYMENT, objects.workload("Deployment", "dep-uid", {"replicas": replicas}))


def test_each_pod_of_a_deployment_is_an_instance() -> None:
    raw = [deployed("llm-5d9c-abc", "a"), deployed("llm-5d9c-def", "b", deleting=True)]
    gone = deployed("llm-5d9c-ghi", "c", phase="Failed")
    assert [view.name for view in seen([*raw, gone], deployment())] == [
        "serve.llm.llm-5d9c-abc",
        "serve.llm.llm-5d9c-def",
    ]


def test_a_whole_deployment_has_a_start_once_all_its_pods_are_there() -> None:
    raw = [deployed("llm-5d9c-abc", "a"), deployed("llm-5d9c-def", "b", created="2026-11-30T15:59:59Z")]
    assert incarnation_of(one(raw, deployment(), grouping=Grouping.WORKLOAD)) == "b"
    assert incarnation_of(one(raw[:1], deployment(), grouping=Grouping.WORKLOAD)) is None


def test_any_workload_can_be_taken_whole_or_pod_by_pod() -> None:
    raw = [objects.group_pod(group, worker, f"u{group}{worker}") for group in (0, 1) for worker in (0, 1)]
    whole = one(raw, lws(2), grouping=Grouping.WORKLOAD)
    assert (whole.name, whole.size, incarnation_of(whole), whole.problem) == ("serve.llm", 4, "u00", "")
    apart = seen(raw, lws(2), grouping=Grouping.POD)
    assert [(view.name, view.size, view.problem) for view in apart][1] == ("serve.llm.llm-0-1", 1, "")


# -- what is left alone


def problem(raw: list[dict[str, Any]], workload: WorkloadView) -> str:
    return one(raw, workload).problem


def test_a_group_that_is_not_known_well_enough_is_left_alone() -> None:
    leader, worker = objects.group_pod(0, 0, "a"), objects.group_pod(0, 1, "b")
    assert problem([leader, worker], lws()) == ""
    second = objects.group_pod(0, 0, "z")
    second["metadata"]["name"] = "copy"
    assert "two leaders" in problem([leader, worker, second], lws())
    assert "several by their group keys" in problem([leader, objects.group_pod(0, 1, "b", key="other")], lws())
    assert "2 revisions" in problem([leader, objects.group_pod(0, 1, "b", revision="r2")], lws())
    nowhere = objects.group_pod(0, 1, "b")
    del nowhere["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"]
    assert "which place" in problem([leader, nowhere], lws())
    del nowhere["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
    assert "which place" in problem([leader, nowhere], lws())
    del worker["metadata"]["ownerReferences"]
    assert "no controller owns it" in problem([leader, worker], lws())


def test_what_its_own_controller_ends_is_left_alone() -> None:
    going = {"deletionTimestamp": objects.BORN}
    assert "being deleted" in problem([objects.group_pod(0, 0, "a")], lws(metadata=going))
    (extra,) = [view for view in seen([objects.group_pod(1, 0, "a")], lws(1)) if view.index == "1"]
    assert "beyond the 1 replicas" in extra.problem
    over = {"conditions": [{"type": "Failed", "status": "True", "reason": "ReachedMaxRestarts"}]}
    assert "ReachedMaxRestarts" in problem([objects.job_pod(0, 0, "a")], job_set(status=over))
    assert "2 pods are there, 1 should be" in problem(
        [objects.pod("llm-0", "a"), objects.pod("llm-1", "b")], stateful_set(1)
    )


def test_a_job_set_whose_pods_have_no_place_is_left_alone() -> None:
    raw = objects.job_pod(0, 0, "a")
    del raw["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]
    assert "which place" in problem([raw], job_set())


# -- names


def test_names_are_never_too_long_and_never_those_of_others() -> None:
    long = instance_name("n" * 63, "w" * 180, "7")
    assert len(long) <= 253
    assert long != instance_name("n" * 63, "w" * 180, "8")
    assert instance_name("serve", "llm.0") != instance_name("serve", "llm", "0")
    assert len(profile_config_map("w" * 253)) <= 253
    both = seen([objects.pod("llm-0", "a"), objects.job_pod(0, 0, "j")], stateful_set(1), job_set())
    assert len({view.name for view in both}) == 2
    assert "serve.llm" in {view.name for view in both if view.kind is JOB_SET}
