"""A start is looked for, not made: a new incarnation, as a whole, off the nodes that it must keep off."""

from __future__ import annotations

from typing import Any

from kube_group_world import World, world
from kube_workloads import job_set, leader_worker_set, pod_template, workload
from rankmuster.adapters.kube.groups.start_profile import StartProfile
from rankmuster.adapters.kube.naming import profile_config_map
from rankmuster.incident.actuators import Group, Verb
from rankmuster.model.incident import Ending, GroupState, StartWish
from rankmuster.model.kube import WorkloadKind

LWS, STATEFUL_SET = WorkloadKind.LEADER_WORKER_SET, WorkloadKind.STATEFUL_SET


def first_of(group: Group, place: World) -> str:
    look = group.look(place.after(5))
    assert look.incarnation is not None
    return look.incarnation


def test_a_second_one_is_never_started_and_an_old_one_is_never_ended_by_a_start() -> None:
    with world(leader_worker_set()) as place:
        place.settle(2)
        group = place.group(LWS, "0")
        first = first_of(group, place)
        other = group.start("gone", "o", StartWish(), place.after(10))
        assert (other.ending, other.data["incarnation"]) == (Ending.DONE, first)
        same = group.start(first, "o", StartWish(), place.after(10))
        assert same.ending is Ending.FAILED
        assert "still there" in same.note
        assert place.deleted() == []


def test_a_group_that_ended_by_itself_is_made_room_for_once() -> None:
    with world(workload("StatefulSet", replicas=1)) as place:
        place.settle(1)
        group = place.group(STATEFUL_SET)
        for _ in range(2):  # the second time the kubelet waits before it starts it again
            place.cluster.kubelet.crash("serving", "llm-0")
            place.cluster.run(0.5)
        look = group.look(place.after(5))
        assert (look.state, look.ended_by_itself) == (GroupState.ENDED, True)
        answer = group.start(look.incarnation, "o", StartWish(), place.after(60))
        assert answer.ending is Ending.DONE, answer
        assert place.deleted() == ["pods/llm-0"]
        assert group.start(look.incarnation, "o", StartWish(), place.after(60)).ending is Ending.DONE
        assert place.deleted() == ["pods/llm-0"]


def tainted(place: World, node: str) -> None:
    taint = {"key": "rankmuster.dev/fenced", "effect": "NoSchedule"}
    place.cluster.store.patch("nodes", None, node, {"spec": {"taints": [taint]}})


def test_new_pods_keep_off_a_fenced_node_and_that_is_looked_at() -> None:
    with world(leader_worker_set()) as place:
        place.settle(2)
        group = place.group(LWS, "0", elsewhere=True)
        first = first_of(group, place)
        node = group.look(place.after(5)).nodes["llm-0-1"]
        tainted(place, node)
        assert group.terminate(first, "o", place.after(60)).ending is Ending.DONE
        begun = group.start(first, "o", StartWish(avoid=(node,)), place.after(60))
        assert begun.ending is Ending.DONE, begun
        assert node not in begun.data["nodes"].values()


def test_a_pod_on_a_node_to_be_avoided_is_told() -> None:
    with world(leader_worker_set(), nodes=2) as place:  # nobody has tainted it, and there is no other place
        place.settle(2)
        group = place.group(LWS, "0", elsewhere=True)
        first = first_of(group, place)
        assert group.terminate(first, "o", place.after(60)).ending is Ending.DONE
        begun = group.start(first, "o", StartWish(avoid=("node-1",)), place.after(60))
        assert begun.ending is Ending.PARTIAL
        assert begun.data["avoided"] == ["node-1"]


def test_a_group_without_a_place_has_begun_in_part() -> None:
    with world(leader_worker_set(), nodes=2) as place:
        place.settle(2)
        group = place.group(LWS, "0", elsewhere=True)
        first = first_of(group, place)
        tainted(place, "node-1")
        assert group.terminate(first, "o", place.after(60)).ending is Ending.DONE
        begun = group.start(first, "o", StartWish(avoid=("node-1",)), place.after(20))
        assert begun.ending is Ending.PARTIAL
        assert "Unschedulable" in begun.note


def test_nothing_that_comes_is_no_start() -> None:
    with world(workload("StatefulSet", replicas=1)) as place:
        place.settle(1)
        group = place.group(STATEFUL_SET)
        first = first_of(group, place)
        place.cluster.store.delete("statefulsets.apps", "serving", "llm")
        place.cluster.run(60)
        answer = group.start(first, "o", StartWish(), place.after(5))
        assert answer.ending is Ending.TIMED_OUT
        assert "is not there" in answer.note


# -- variables for one start


class Wished:
    """How the next start is wished; a test changes it."""

    def __init__(self, wish: StartWish) -> None:
        self.wish = wish

    def __call__(self) -> StartWish:
        return self.wish


def profile(place: World, wish: StartWish) -> StartProfile:
    def variables(suspect: str) -> dict[str, str]:
        return {"NCCL_DEBUG": "INFO", "SUSPECT": suspect}

    return StartProfile(place.client, "serving", "llm", expected=Wished(wish), variables=variables)


def kept(place: World) -> dict[str, Any]:
    found: dict[str, Any] = place.cluster.store.get("configmaps", "serving", profile_config_map("llm"))
    return found


def test_the_variables_of_one_start_are_there_before_its_pods_and_not_afterwards() -> None:
    template = pod_template()
    reference = {"name": profile_config_map("llm"), "optional": True}
    template["spec"]["containers"][0]["envFrom"] = [{"configMapRef": reference}]
    with world(leader_worker_set(template=template)) as place:
        place.settle(2)
        wish = StartWish(suspect="path_lost", environment={"MORE": "1"})
        group = place.group(LWS, "0", profile=profile(place, wish))
        first = first_of(group, place)
        told: list[str] = []
        place.cluster.store.subscribe("configmaps", lambda type_, obj: told.append(obj["metadata"]["name"]))
        place.cluster.store.subscribe("pods", lambda type_, obj: told.append(type_))
        assert group.terminate(first, "i/terminate", place.after(60)).ending is Ending.DONE
        assert told[0] == "rankmuster-llm"
        assert kept(place)["data"] == {"NCCL_DEBUG": "INFO", "SUSPECT": "path_lost", "MORE": "1"}
        begun = group.start(first, "i/start", wish, place.after(60))
        assert begun.ending is Ending.DONE
        assert "rankmuster-llm" in begun.note
        assert group.forget_profile(place.after(5)).ending is Ending.DONE
        assert not kept(place).get("data")


def test_without_its_variables_the_group_is_started_all_the_same() -> None:
    from kube_sim.faults import Fault, Harm

    with world(leader_worker_set()) as place:
        place.settle(2)
        group = place.group(LWS, "0", profile=profile(place, StartWish(suspect="path_lost")))
        place.server.faults.switch_on(Fault(Harm.REFUSE, resource="configmaps", status=403, times=None))
        answer = group.terminate(first_of(group, place), "o", place.after(60))
        assert answer.ending is Ending.DONE
        assert group.forget_profile(place.after(5)).ending is Ending.FAILED


def test_who_knows_the_next_start_may_be_down() -> None:
    def down() -> StartWish:
        raise OSError("the journal is gone")

    with world(leader_worker_set()) as place:
        place.settle(2)
        profile = StartProfile(place.client, "serving", "llm", expected=down, variables=lambda suspect: {})
        group = place.group(LWS, "0", profile=profile)
        answer = group.terminate(first_of(group, place), "o", place.after(60))
        assert answer.ending is Ending.DONE
        assert "the journal is gone" in answer.note


# -- what it would do, and what it needs


def test_it_says_the_calls_that_it_would_send() -> None:
    with world(leader_worker_set()) as place:
        uids = place.settle(2)
        group: Group = place.group(LWS, "0", profile=profile(place, StartWish(suspect="path_lost")))
        assert "with its UID" in group.would(Verb.TERMINATE, incarnation="x")[0]
        first = first_of(group, place)
        lines = group.would(Verb.TERMINATE, incarnation=first)
        assert lines[0].startswith("PATCH /api/v1/namespaces/serving/configmaps/rankmuster-llm")
        assert "INFO" not in lines[0]
        assert lines[1] == (
            f'DELETE /api/v1/namespaces/serving/pods/llm-0 {{"preconditions":{{"uid":"{uids["llm-0"]}"}},'
            '"propagationPolicy":"Foreground"}'
        )
        wish = StartWish(avoid=("node-1",))
        assert "node-1" in "\n".join(group.would(Verb.START, incarnation=first, wish=wish))
        assert place.deleted() == []


def test_what_it_asks_of_the_api_server() -> None:
    with world(leader_worker_set(), job_set("jobs"), nodes=6) as place:
        place.settle(4)
        for kind, index, name in ((LWS, "0", "llm"), (WorkloadKind.JOB_SET, None, "jobs")):
            group = place.group(kind, index)
            group._find = place.find(kind, index, workload=name)
            assert group.terminate(first_of(group, place), "o", place.after(60)).ending is Ending.DONE
        assert place.server.recorder.rights() == {
            ("", "pods", "list"),
            ("", "pods", "delete"),
            ("batch", "jobs", "list"),
            ("batch", "jobs", "delete"),
            ("leaderworkerset.x-k8s.io", "leaderworkersets", "get"),
            ("jobset.x-k8s.io", "jobsets", "get"),
        }
        asked = len(place.server.recorder.asked())
        assert asked < 40, asked
