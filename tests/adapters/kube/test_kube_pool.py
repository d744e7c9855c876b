"""Pods are out of an inference pool while their label is parked, and get back exactly the value that they had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kube_group_world import NAMESPACE, World, world
from kube_sim.faults import Fault, Harm
from kube_workloads import leader_worker_set, pod_template, workload
from rankmuster.adapters.kube.pool_label import KEPT, PARKED, PoolLabel
from rankmuster.model.incident import Ending, TrafficState
from rankmuster.model.kube import WorkloadKind

LABEL = "llm-d.ai/serving"
LWS = WorkloadKind.LEADER_WORKER_SET


@pytest.fixture
def place() -> Iterator[World]:
    with world(leader_worker_set(template=pod_template(labels={LABEL: "true", "app": "x"}))) as made:
        made.settle(2)
        yield made


def pool(place: World, label: str = LABEL, kind: WorkloadKind = LWS, index: str | None = "0", **more: Any) -> PoolLabel:
    return PoolLabel(place.client, "pool", label, place.find(kind, index), pause=place.pause, **more)


def labels(place: World, label: str = LABEL) -> list[str | None]:
    return [one["metadata"]["labels"].get(label) for one in place.cluster.store.list("pods")]


def without_versions(place: World) -> list[dict[str, Any]]:
    found = place.cluster.store.list("pods")
    for one in found:
        one["metadata"] = {
            key: value for key, value in one["metadata"].items() if key not in ("resourceVersion", "managedFields")
        }
    return found


def test_a_parked_label_comes_back_exactly(place: World) -> None:
    before, uids = without_versions(place), place.uids()
    traffic = pool(place)
    assert traffic.look(place.after(5)).state is TrafficState.READY
    answer = traffic.stop_new("x", place.after(10))
    assert answer.ending is Ending.DONE, answer
    assert labels(place) == [PARKED, PARKED]
    assert traffic.look(place.after(5)).state is TrafficState.STOPPED
    assert traffic.stop_new("x", place.after(10)).note.startswith("0 of 2")
    cut = traffic.cut("x", place.after(10))
    assert (cut.ending, "cannot end what runs" in cut.note) == (Ending.REFUSED, True)
    place.cluster.run(60)
    assert place.uids() == uids  # no controller has made others
    restored = traffic.restore(place.after(10))
    assert restored.ending is Ending.DONE, restored
    assert without_versions(place) == before
    assert traffic.restore(place.after(10)).ending is Ending.DONE
    assert traffic.set_weight(30, place.after(5)).ending is Ending.REFUSED


def test_what_others_make_of_it_meanwhile_stays_theirs(place: World) -> None:
    traffic = pool(place)
    traffic.stop_new("x", place.after(10))
    place.cluster.store.patch("pods", NAMESPACE, "llm-0", {"metadata": {"labels": {LABEL: "canary"}}})
    assert traffic.look(place.after(5)).state is TrafficState.MIXED
    assert traffic.restore(place.after(10)).ending is Ending.DONE
    assert labels(place) == ["canary", "true"]
    assert all(KEPT not in one["metadata"].get("annotations", {}) for one in place.cluster.store.list("pods"))


def test_one_that_crashed_in_between_is_taken_up_again(place: World) -> None:
    place.server.faults.switch_on(Fault(Harm.REFUSE, "patch", "pods", name="llm-0", status=500, times=None))
    traffic = pool(place)
    assert traffic.stop_new("x", place.after(10)).ending is Ending.FAILED
    assert traffic.look(place.after(5)).state is TrafficState.MIXED
    place.server.faults.switch_off()
    place.server.faults.switch_on(Fault(Harm.CUT_AFTER, "patch", "pods", times=1))
    assert traffic.stop_new("x", place.after(10)).ending is Ending.DONE
    kept = [json.loads(one["metadata"]["annotations"][KEPT]) for one in place.cluster.store.list("pods")]
    assert kept == [{LABEL: "true"}] * 2
    place.server.faults.switch_on(Fault(Harm.REFUSE, "patch", "pods", status=409, times=5))
    assert traffic.restore(place.after(10)).ending is Ending.DONE
    assert labels(place) == ["true", "true"]


@pytest.mark.parametrize("words", [None, "{", "[]", '{"other": "x"}', '{"llm-d.ai/serving": 7}'])
def test_a_value_that_is_kept_nowhere_is_not_made_up(place: World, words: str | None) -> None:
    traffic = pool(place)
    traffic.stop_new("x", place.after(10))
    body = {"metadata": {"annotations": {KEPT: words}}}
    place.cluster.store.patch("pods", NAMESPACE, "llm-0", body, kind="merge")
    answer = traffic.restore(place.after(3))
    assert answer.ending is not Ending.DONE
    assert "kept nowhere: llm-0" in answer.note
    assert labels(place) == [PARKED, "true"]


def test_a_label_by_which_a_controller_knows_its_pods_is_not_touched() -> None:
    with world(workload("StatefulSet", replicas=2)) as place:
        before = place.settle(2)
        traffic = pool(place, "app", WorkloadKind.STATEFUL_SET, None)
        answer = traffic.stop_new("x", place.after(10))
        assert answer.ending is Ending.REFUSED
        assert "StatefulSet llm knows its pods by the label app" in answer.note
        place.cluster.run(60)
        assert place.uids() == before
        assert not place.server.recorder.asked(verb="patch")
        for label in ("leaderworkerset.sigs.k8s.io/name", "pod-template-hash", "batch.kubernetes.io/job-name"):
            assert pool(place, label, WorkloadKind.STATEFUL_SET, None).stop_new("x", place.after(5)).ending is (
                Ending.REFUSED
            )


def test_controllers_that_cannot_be_read_leave_it_as_it_is(place: World) -> None:
    place.server.faults.switch_on(Fault(Harm.REFUSE, "get", "statefulsets", status=403, times=None))
    answer = pool(place).stop_new("x", place.after(10))
    assert answer.ending is Ending.REFUSED
    assert "their controllers could not be read" in answer.note
    assert labels(place) == ["true", "true"]
    find = place.find(LWS, "0")

    def foreign(deadline: Any) -> Any:
        view = find(deadline)
        owned = tuple(replace(one, owner=replace(one.owner, kind="Rollout")) for one in view.pods if one.owner)
        return replace(view, pods=owned)

    answer = PoolLabel(place.client, "pool", LABEL, foreign).stop_new("x", place.after(10))
    assert (answer.ending, "nobody knows by which labels Rollout" in answer.note) == (Ending.REFUSED, True)


def test_pods_that_no_pool_selects(place: World) -> None:
    traffic = pool(place, "no-such")
    assert traffic.look(place.after(5)).state is TrafficState.ABSENT
    assert traffic.stop_new("x", place.after(5)).ending is Ending.DONE
    assert traffic.restore(place.after(5)).ending is Ending.FAILED
    place.server.faults.switch_on(Fault(Harm.REFUSE, "list", "pods", status=500, times=None))
    assert traffic.look(place.after(5)).state is TrafficState.UNKNOWN


def test_a_dry_run_says_what_it_would_send() -> None:
    traffic = PoolLabel(None, "pool", LABEL, None)  # type: ignore[arg-type]
    assert traffic.would("stop_new") == (
        "PATCH pods of the instance: label llm-d.ai/serving=parked.rankmuster.dev, its value into annotation "
        "rankmuster.dev/parked-labels",
    )
    assert KEPT in traffic.would("restore")[0]
