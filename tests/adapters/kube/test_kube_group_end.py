"""A group is ended whole and once, whatever makes its pods, and what came after it is never touched."""

from __future__ import annotations

from typing import Any

import pytest

from kube_group_world import World, world
from kube_sim.faults import Fault, Harm
from kube_workloads import job_set, leader_worker_set, workload
from rankmuster.adapters.kube.groups.base import PodGroup
from rankmuster.model.incident import Ending, GroupState, StartWish
from rankmuster.model.kube import Grouping, WorkloadKind

LWS, JOB_SET = WorkloadKind.LEADER_WORKER_SET, WorkloadKind.JOB_SET
STATEFUL_SET, DEPLOYMENT = WorkloadKind.STATEFUL_SET, WorkloadKind.DEPLOYMENT

KINDS: dict[str, tuple[dict[str, Any], WorkloadKind, str | None, int]] = {
    "group": (leader_worker_set(), LWS, "0", 2),
    "group without a policy": (leader_worker_set(restart_policy="None"), LWS, "0", 2),
    "jobs": (job_set(replicas=2, pods=1, failurePolicy={"maxRestarts": 0}), JOB_SET, None, 2),
    "stateful": (workload("StatefulSet", replicas=2), STATEFUL_SET, None, 2),
}


def known(group: PodGroup, place: World) -> str:
    look = group.look(place.after(5))
    assert look.state is GroupState.RUNNING, look
    assert look.incarnation is not None
    return look.incarnation


@pytest.mark.parametrize("which", KINDS)
def test_a_group_is_ended_whole_and_its_controller_starts_the_next_one(which: str) -> None:
    manifest, kind, index, pods = KINDS[which]
    with world(manifest) as place:
        before = place.settle(pods)
        group = place.group(kind, index)
        first = known(group, place)

        ended = group.terminate(first, "i/terminate", place.after(60))
        assert ended.ending is Ending.DONE, ended
        assert not set(before.values()) & set(place.uids().values())
        deletes = place.deleted()

        begun = group.start(first, "i/start", StartWish(), place.after(60))
        assert begun.ending is Ending.DONE, begun
        assert begun.data["incarnation"] != first
        place.settle(pods)
        assert known(group, place) == begun.data["incarnation"]

        again = group.terminate(first, "i/terminate", place.after(60))
        assert again.ending is Ending.DONE
        assert "not touched" in again.note
        assert place.deleted() == deletes


def test_a_leader_takes_its_workers_with_it_by_one_delete() -> None:
    with world(leader_worker_set(replicas=2)) as place:
        before = place.settle(4)
        group = place.group(LWS, "1")
        assert group.terminate(known(group, place), "o", place.after(60)).ending is Ending.DONE
        assert place.deleted() == ["pods/llm-1"]
        after = place.settle(4)
        assert {one for one in after if after[one] != before[one]} == {"llm-1", "llm-1-1"}


def test_a_job_set_is_made_anew_without_using_up_a_restart() -> None:
    with world(job_set(replicas=2, pods=2)) as place:
        place.settle(4)
        group = place.group(JOB_SET)
        assert group.terminate(known(group, place), "o", place.after(60)).ending is Ending.DONE
        assert place.deleted() == ["jobs/llm-workers-1", "jobs/llm-workers-0"]
        place.settle(4)
        status = place.cluster.store.get("jobsets.jobset.x-k8s.io", "serving", "llm").get("status", {})
        assert status.get("restarts", 0) == 0


def test_a_job_set_that_has_ended_is_left_as_it_is() -> None:
    with world(job_set(replicas=1, pods=1)) as place:
        place.settle(1)
        (pod,) = place.uids()
        place.cluster.kubelet.crash("serving", pod)
        place.cluster.run(30)
        group = place.group(JOB_SET)
        look = group.look(place.after(5))
        assert (look.state, look.ended_by_itself, look.exit_status) == (GroupState.ENDED, True, 1)
        refused = group.terminate(look.incarnation, "o", place.after(10))
        assert refused.ending is Ending.REFUSED
        assert "Failed" in refused.note
        assert place.deleted() == []


def test_a_pod_of_a_deployment_is_replaced_and_another_one_stands_for_it() -> None:
    with world(workload("Deployment", replicas=2)) as place:
        first, second = sorted(place.settle(2).items())
        group = place.group(DEPLOYMENT, first[0])
        assert group.terminate(first[1], "o", place.after(60)).ending is Ending.DONE
        begun = group.start(first[1], "o", StartWish(), place.after(30))
        assert begun.ending is Ending.DONE, begun
        assert begun.data["incarnation"] not in (first[1], second[1])
        assert "stands in" in begun.note
        place.settle(2)
        again = group.terminate(None, "o", place.after(30))
        assert again.ending is Ending.DONE
        assert "nothing runs" in again.note
        assert place.deleted() == [f"pods/{first[0]}"]


def test_a_deployment_as_a_whole_is_a_group() -> None:
    with world(workload("Deployment", replicas=2)) as place:
        before = place.settle(2)
        group = place.group(DEPLOYMENT, grouping=Grouping.WORKLOAD)
        assert group.terminate(known(group, place), "o", place.after(60)).ending is Ending.DONE
        assert not set(before.values()) & set(place.settle(2).values())


# -- bound to its incarnation


def test_a_group_that_was_made_anew_by_its_controller_is_not_touched() -> None:
    with world(leader_worker_set()) as place:
        place.settle(2)
        group = place.group(LWS, "0")
        first = known(group, place)
        place.cluster.kubelet.crash("serving", "llm-0-1")
        place.cluster.run(60)
        second = place.settle(2)
        answer = group.terminate(first, "o", place.after(30))
        assert answer.ending is Ending.DONE
        assert place.uids() == second
        assert place.deleted() == []


def test_a_pod_that_is_replaced_between_look_and_delete_is_not_touched() -> None:
    with world(workload("StatefulSet", replicas=1)) as place:
        before = place.settle(1)
        group = place.group(STATEFUL_SET)
        first = known(group, place)
        find = group._find

        def late(deadline: Any) -> Any:
            view = find(deadline)
            group._find = find
            place.cluster.store.delete("pods", "serving", "llm-0", uid=before["llm-0"])
            place.settle(1)
            return view

        group._find = late
        answer = group.terminate(first, "o", place.after(60))
        assert answer.ending is Ending.DONE
        after = place.uids()
        place.cluster.run(60)
        assert place.uids() == after != before


def test_containers_that_were_restarted_in_place_are_another_incarnation() -> None:
    with world(workload("StatefulSet", replicas=1)) as place:
        place.settle(1)
        group = place.group(STATEFUL_SET)
        first = known(group, place)
        place.cluster.kubelet.crash("serving", "llm-0")
        place.cluster.run(30)
        assert group.look(place.after(5)).incarnation == f"{first}.r1"
        answer = group.terminate(first, "o", place.after(30))
        assert (answer.ending, place.deleted()) == (Ending.DONE, [])
        assert "in place" in answer.note
        assert group.terminate(f"{first}.r1", "o", place.after(60)).ending is Ending.DONE


def test_what_a_dead_runner_left_half_done_is_done_by_the_next_one() -> None:
    with world(workload("StatefulSet", replicas=3)) as place:
        before = place.settle(3)
        group = place.group(STATEFUL_SET)
        first = known(group, place)
        refused = place.server.faults.switch_on(
            Fault(Harm.REFUSE, verb="delete", resource="pods", name="llm-2", status=403, times=None)
        )
        half = group.terminate(first, "o", place.after(20))
        assert half.ending is Ending.FAILED
        assert "llm-0" not in " ".join(place.deleted())  # what the incarnation is known by stays to the last
        place.server.faults.switch_off(refused)
        place.cluster.run(60)
        assert group.terminate(first, "o", place.after(60)).ending is Ending.DONE
        assert not set(before.values()) & set(place.uids().values())


def test_a_delete_whose_answer_was_lost_is_looked_for() -> None:
    with world(leader_worker_set()) as place:
        before = place.settle(2)
        group = place.group(LWS, "0")
        first = known(group, place)
        place.server.faults.switch_on(Fault(Harm.CUT_AFTER, verb="delete", resource="pods"))
        assert group.terminate(first, "o", place.after(60)).ending is Ending.DONE
        assert not set(before.values()) & set(place.uids().values())


def test_without_a_look_nothing_is_deleted() -> None:
    with world(leader_worker_set()) as place:
        place.settle(2)
        group = place.group(LWS, "0")
        first = known(group, place)
        place.server.faults.switch_on(Fault(Harm.REFUSE, verb="list", resource="pods", status=403, times=None))
        look = group.look(place.after(5))
        assert look.state is GroupState.UNKNOWN
        assert "pods" in look.note
        answer = group.terminate(first, "o", place.after(10))
        assert (answer.ending, place.deleted()) == (Ending.FAILED, [])


def test_a_group_with_a_problem_is_left_alone_and_says_why() -> None:
    with world(leader_worker_set()) as place:
        place.settle(2)
        copy = place.cluster.store.get("pods", "serving", "llm-0-1")
        for key in ("uid", "resourceVersion", "ownerReferences", "creationTimestamp"):
            copy["metadata"].pop(key)
        copy["metadata"]["name"] = "llm-debug"
        copy.pop("status")
        copy["spec"].pop("nodeName")
        place.cluster.store.create(copy)
        group = place.group(LWS, "0")
        answer = group.terminate(group.look(place.after(5)).incarnation, "o", place.after(10))
        assert (answer.ending, place.deleted()) == (Ending.REFUSED, [])
        assert "llm-debug" in answer.note


# -- what cannot be ended


@pytest.mark.parametrize("which", ["group", "stateful"])
def test_a_pod_on_a_node_that_does_not_answer_is_the_node_owners(which: str) -> None:
    manifest, kind, index, pods = KINDS[which]
    with world(manifest) as place:
        place.settle(pods)
        group = place.group(kind, index)
        first = known(group, place)
        node = place.cluster.store.get("pods", "serving", "llm-0-1" if kind is LWS else "llm-1")["spec"]["nodeName"]
        place.cluster.fail_node(node)
        place.cluster.run(60)
        answer = group.terminate(first, "o", place.after(40))
        assert answer.ending is Ending.NODE, answer
        assert answer.data["node"] == node
        assert "out-of-service" in answer.note
        assert group.look(place.after(5)).state is not GroupState.ENDED
        started = group.start(first, "o", StartWish(), place.after(10))
        assert started.ending in (Ending.TIMED_OUT, Ending.FAILED)


def test_a_pod_that_outlives_its_grace_is_the_node_owners_and_before_that_it_is_late() -> None:
    stuck = workload("StatefulSet", replicas=1)
    stuck["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30
    with world(stuck) as place:
        place.settle(1)
        group = place.group(STATEFUL_SET)
        first = known(group, place)
        place.cluster.kubelet.sync = lambda key, pod: None  # a process in the driver: no signal ends it
        late = group.terminate(first, "o", place.after(20))
        assert late.ending is Ending.TIMED_OUT
        assert "terminationGracePeriodSeconds" in late.note
        assert group.terminate(first, "o", place.after(60)).ending is Ending.NODE


def test_a_pod_that_a_finalizer_holds_is_nobodys_node() -> None:
    held = workload("StatefulSet", replicas=1)
    held["spec"]["template"]["metadata"]["finalizers"] = ["example.org/hold"]
    with world(held) as place:
        place.settle(1)
        place.cluster.store.patch("pods", "serving", "llm-0", {"metadata": {"finalizers": ["example.org/hold"]}})
        group = place.group(STATEFUL_SET)
        answer = group.terminate(known(group, place), "o", place.after(60))
        assert answer.ending is Ending.TIMED_OUT
        assert "finalizers" in answer.note


# -- an API server that is late, wrong or in pieces


@pytest.mark.parametrize("harm", [Harm.GARBAGE, Harm.HALF, Harm.EMPTY, Harm.CUT_BEFORE, Harm.REFUSE])
@pytest.mark.parametrize(("verb", "resource"), [("list", "pods"), ("get", "statefulsets"), ("delete", "pods")])
def test_a_bad_answer_never_ends_more_than_was_meant(harm: Harm, verb: str, resource: str) -> None:
    with world(workload("StatefulSet", replicas=1)) as place:
        before = place.settle(1)
        group = place.group(STATEFUL_SET)
        first = known(group, place)
        fault = place.server.faults.switch_on(Fault(harm, verb=verb, resource=resource, times=None))
        answer = group.terminate(first, "o", place.after(20))
        assert answer.ending in (Ending.DONE, Ending.FAILED, Ending.TIMED_OUT), answer
        place.server.faults.switch_off(fault)
        assert answer.ending is not Ending.DONE or before != place.uids()
        assert group.terminate(first, "o", place.after(60)).ending is Ending.DONE
        after = place.settle(1)
        assert before != after
        assert group.terminate(first, "o", place.after(60)).ending is Ending.DONE
        assert place.uids() == after


def test_a_wait_outlives_an_api_server_that_is_gone_for_a_while() -> None:
    with world(leader_worker_set()) as place:
        place.settle(2)
        group = place.group(LWS, "0")
        first = known(group, place)
        place.before_pause = [
            lambda: place.server.faults.switch_on(Fault(Harm.REFUSE, verb="list", status=503, times=9)),
        ]
        assert group.terminate(first, "o", place.after(60)).ending is Ending.DONE


def test_pods_that_are_not_gone_for_an_api_server_that_says_nothing_are_not_said_to_be() -> None:
    with world(leader_worker_set()) as place:
        place.settle(2)
        group = place.group(LWS, "0")
        first = known(group, place)
        place.before_pause = [
            lambda: place.server.faults.switch_on(Fault(Harm.REFUSE, verb="list", status=503, times=None)),
        ]
        answer = group.terminate(first, "o", place.after(10))
        assert answer.ending is Ending.TIMED_OUT
        assert "nobody can see" in answer.note
