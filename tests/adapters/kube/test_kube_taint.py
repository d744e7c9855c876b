"""A node is kept from new pods by a taint with its owner's name, and what others set is never touched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kube_group_world import World, world
from kube_sim.faults import Fault, Harm
from kube_workloads import workload
from rankmuster.adapters.kube.events import Events
from rankmuster.adapters.kube.node_taint import NodeTaint
from rankmuster.adapters.kube.node_words import fence_of, short
from rankmuster.collect.deadline import Deadline
from rankmuster.evidence.json_fields import unix_seconds
from rankmuster.model.incident import Answer, Ending, Fenced
from rankmuster.model.kube import FENCE_TAINT, FENCED_BY, FENCED_LABEL

NODE = "node-0"
OTHERS = {"key": "dedicated", "value": "llm", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def place() -> Iterator[World]:
    with world(nodes=2) as made:
        change(made, lambda node: node["spec"].update(taints=[dict(OTHERS)]))
        yield made


def change(place: World, how: Change, name: str = NODE) -> None:
    node = place.cluster.store.get("nodes", None, name)
    how(node)
    place.cluster.store.update(node)


def node_of(place: World) -> dict[str, Any]:
    found = place.cluster.store.get("nodes", None, NODE)
    meta = found["metadata"]
    return {
        "taints": found["spec"].get("taints"),
        "cordoned": found["spec"].get("unschedulable", False),
        "label": meta["labels"].get(FENCED_LABEL),
        "by": meta.get("annotations", {}).get(FENCED_BY),
    }


def taint_of(place: World, **more: Any) -> NodeTaint:
    return NodeTaint(place.client, pause=place.pause, wall=place.cluster.clock, **more)


OURS = {"key": FENCE_TAINT, "value": "i-1", "effect": "NoSchedule"}


@pytest.mark.parametrize("cordon", [False, True])
def test_a_fence_stands_whole_and_goes_whole(place: World, cordon: bool) -> None:
    before = place.cluster.store.get("nodes", None, NODE)
    node = taint_of(place, cordon=cordon)
    assert node.look(NODE, place.after(5)).fenced is Fenced.NO
    answer = node.fence(NODE, "i-1", "Xid 79 on\nGPU 3", place.after(5))
    assert answer.ending is Ending.DONE, answer
    assert "others" not in answer.data
    seen = node_of(place)
    assert (seen["taints"], seen["cordoned"], seen["label"]) == ([OTHERS, OURS], cordon, "i-1")
    said = json.loads(seen["by"])
    assert (said["incident"], said["reason"], said["cordon"]) == ("i-1", "Xid 79 on GPU 3", cordon)
    assert said["nodeUid"] == before["metadata"]["uid"]
    look = node.look(NODE, place.after(5))
    assert (look.fenced, look.incident, look.reason) == (Fenced.OURS, "i-1", "Xid 79 on GPU 3")
    assert len(place.server.recorder.asked(verb="patch")) == 1

    again = node.fence(NODE, "i-1", "x", place.after(5))
    assert (again.ending, "already" in again.note) == (Ending.DONE, True)
    assert len(place.server.recorder.asked(verb="patch")) == 1

    lifted = node.lift(NODE, "i-1", place.after(5))
    assert lifted.ending is Ending.DONE, lifted
    after = place.cluster.store.get("nodes", None, NODE)
    for one in (before, after):
        one["metadata"].pop("managedFields", None)
        del one["metadata"]["resourceVersion"]
        one["metadata"]["annotations"] = one["metadata"].get("annotations") or {}
    assert after == before
    assert node.lift(NODE, "i-1", place.after(5)).ending is Ending.DONE
    assert len(place.server.recorder.asked(verb="patch")) == 2


def test_new_pods_stay_away_from_it() -> None:
    with world(nodes=2) as place:
        taint_of(place).fence(NODE, "i-1", "x", place.after(5))
        place.cluster.store.create(workload("StatefulSet", replicas=1))
        place.settle(1)
        assert {one["spec"]["nodeName"] for one in place.cluster.store.list("pods")} == {"node-1"}


def test_a_cordon_of_others_stays_before_during_and_after(place: World) -> None:
    change(place, lambda node: node["spec"].update(unschedulable=True))
    node = taint_of(place, cordon=True)
    assert node.look(NODE, place.after(5)).fenced is Fenced.OTHERS
    answer = node.fence(NODE, "i-1", "x", place.after(5))
    assert answer.ending is Ending.DONE
    assert "cordoned by others" in answer.note
    assert json.loads(node_of(place)["by"])["cordon"] is False
    lifted = node.lift(NODE, "i-1", place.after(5))
    assert lifted.ending is Ending.DONE
    assert "cordoned by others" in lifted.note
    seen = node_of(place)
    assert (seen["cordoned"], seen["taints"]) == (True, [OTHERS])


def test_our_cordon_that_others_have_lifted_is_not_lifted_again(place: World) -> None:
    node = taint_of(place, cordon=True)
    node.fence(NODE, "i-1", "x", place.after(5))
    change(place, lambda one: one["spec"].pop("unschedulable"))
    assert node.look(NODE, place.after(5)).fenced is Fenced.OURS
    assert node.lift(NODE, "i-1", place.after(5)).ending is Ending.DONE
    assert node_of(place)["taints"] == [OTHERS]


def test_another_incidents_fence_stays(place: World) -> None:
    node = taint_of(place)
    node.fence(NODE, "i-1", "x", place.after(5))
    second = node.fence(NODE, "i-2", "y", place.after(5))
    assert (second.ending, second.data) == (Ending.DONE, {"others": True})
    assert "incident i-1" in second.note
    lifted = node.lift(NODE, "i-2", place.after(5))
    assert lifted.ending is Ending.REFUSED
    assert node.look(NODE, place.after(5)).incident == "i-1"
    assert node_of(place)["taints"] == [OTHERS, OURS]


def put_taint(value: str, effect: str = "NoSchedule") -> Change:
    made = {"key": FENCE_TAINT, "value": value, "effect": effect}
    return lambda node: node["spec"].update(taints=[*node["spec"]["taints"], made])


def annotate(text: str) -> Change:
    return lambda node: node["metadata"].setdefault("annotations", {}).update({FENCED_BY: text})


@pytest.mark.parametrize("words", ["", "null", "[]", "{", '{"incident": "i-1"}', "[" * 5000, '{"incident": {}}'])
def test_a_taint_with_our_key_and_no_word_of_ours_is_of_others(place: World, words: str) -> None:
    change(place, put_taint("i-1"))
    if words:
        change(place, annotate(words))
    node = taint_of(place)
    before = node_of(place)
    assert node.look(NODE, place.after(5)).fenced is Fenced.OTHERS
    fenced = node.fence(NODE, "i-1", "x", place.after(5))
    assert (fenced.ending, fenced.data) == (Ending.DONE, {"others": True})
    lifted = node.lift(NODE, "i-1", place.after(5))
    assert lifted.ending is Ending.REFUSED
    assert "kubectl taint node node-0 rankmuster.dev/fenced-" in lifted.note
    assert node_of(place) == before
    assert not place.server.recorder.asked(verb="patch")


def test_a_fence_that_somebody_edited_is_theirs(place: World) -> None:
    node = taint_of(place)
    node.fence(NODE, "i-1", "x", place.after(5))
    change(place, lambda one: one["spec"]["taints"][1].update(value="keep-out"))
    assert node.look(NODE, place.after(5)).fenced is Fenced.OTHERS
    lifted = node.lift(NODE, "i-1", place.after(5))
    assert lifted.ending is Ending.REFUSED
    assert "somebody has edited" in lifted.note
    assert node_of(place)["taints"][1]["value"] == "keep-out"


def test_a_fence_whose_taint_was_taken_away_can_be_set_again(place: World) -> None:
    node = taint_of(place)
    node.fence(NODE, "i-1", "x", place.after(5))
    change(place, lambda one: one["spec"].update(taints=[dict(OTHERS)]))
    look = node.look(NODE, place.after(5))
    assert look.fenced is Fenced.NO
    assert "without its taint" in look.note
    assert node.fence(NODE, "i-2", "y", place.after(5)).ending is Ending.DONE
    assert node.lift(NODE, "i-2", place.after(5)).ending is Ending.DONE
    assert node_of(place) == {"taints": [OTHERS], "cordoned": False, "label": None, "by": None}


def test_a_node_that_was_made_anew_is_not_ours(place: World) -> None:
    node = taint_of(place)
    node.fence(NODE, "i-1", "x", place.after(5))
    old = place.cluster.store.get("nodes", None, NODE)
    place.cluster.store.delete("nodes", None, NODE)
    copied = {key: old[key] for key in ("apiVersion", "kind", "spec", "status")}
    metadata = {key: old["metadata"][key] for key in ("name", "labels", "annotations")}
    place.cluster.store.create({**copied, "metadata": metadata})
    assert node.look(NODE, place.after(5)).fenced is Fenced.OTHERS
    assert node.lift(NODE, "i-1", place.after(5)).ending is Ending.REFUSED

    place.cluster.store.delete("nodes", None, NODE)
    assert node.look(NODE, place.after(5)).fenced is Fenced.NO
    assert node.lift(NODE, "i-1", place.after(5)).ending is Ending.DONE
    assert node.fence(NODE, "i-1", "x", place.after(5)).ending is Ending.FAILED


def test_what_was_made_since_or_is_not_enabled_any_more_is_not_fenced(place: World) -> None:
    created = unix_seconds(place.cluster.store.get("nodes", None, NODE)["metadata"]["creationTimestamp"])
    assert created is not None
    late = taint_of(place, opened=lambda _: created - 60.0).fence(NODE, "i-1", "x", place.after(5))
    assert (late.ending, "made anew 60 s after" in late.note) == (Ending.REFUSED, True)
    said = Answer(ending=Ending.REFUSED, note="paused")
    assert taint_of(place, may=lambda _: said).fence(NODE, "i-1", "x", place.after(5)) is said
    assert node_of(place)["by"] is None
    assert taint_of(place, opened=lambda _: created).fence(NODE, "i-1", "x", place.after(5)).ending is Ending.DONE


def test_others_write_the_node_all_the_time(place: World) -> None:
    """A taint that comes between our look and our patch stays."""

    def busy(number: int) -> Change:
        return lambda node: node["spec"]["taints"].append({"key": f"k{number}", "effect": "NoSchedule"})

    for number in range(4):
        place.before_pause.append(lambda n=number: change(place, busy(n)))
    place.server.faults.switch_on(Fault(Harm.REFUSE, "patch", "nodes", status=409, times=4))
    assert taint_of(place).fence(NODE, "i-1", "x", place.after(30)).ending is Ending.DONE
    assert [one["key"] for one in node_of(place)["taints"]] == ["dedicated", "k0", "k1", "k2", "k3", FENCE_TAINT]


class Between:
    """The client, with others who act once between a read and what follows it."""

    def __init__(self, place: World, act: Change) -> None:
        self._place, self._act = place, [act]

    def get(self, *asked: Any) -> Any:
        found = self._place.client.get(*asked)
        if self._act:
            change(self._place, self._act.pop())
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place.client, name)


def test_a_patch_that_is_late_does_not_undo_what_came_meanwhile(place: World) -> None:
    busy = NodeTaint(Between(place, put_taint("theirs", "NoExecute")), pause=place.pause)
    answer = busy.fence(NODE, "i-1", "x", place.after(30))
    assert (answer.ending, answer.data) == (Ending.DONE, {"others": True})
    assert [one["value"] for one in node_of(place)["taints"]] == ["llm", "theirs"]


def test_a_lift_that_is_late_lifts_nothing_of_others(place: World) -> None:
    taint_of(place).fence(NODE, "i-1", "x", place.after(5))
    other = NodeTaint(Between(place, lambda one: one["spec"]["taints"][0].update(value="moved")), pause=place.pause)
    assert other.lift(NODE, "i-1", place.after(30)).ending is Ending.DONE
    assert node_of(place)["taints"] == [{**OTHERS, "value": "moved"}]


@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        (Fault(Harm.REFUSE, "patch", "nodes", status=409, times=None), Ending.FAILED),
        (Fault(Harm.REFUSE, "patch", "nodes", status=403, times=None), Ending.REFUSED),
        (Fault(Harm.REFUSE, "get", "nodes", status=403, times=None), Ending.REFUSED),
        (Fault(Harm.REFUSE, "get", "nodes", status=500, times=None), Ending.FAILED),
        (Fault(Harm.CUT_AFTER, "patch", "nodes", times=1), Ending.DONE),
        (Fault(Harm.HALF, "patch", "nodes", times=1), Ending.DONE),
        (Fault(Harm.CUT_BEFORE, "patch", "nodes", times=1), Ending.DONE),
        (Fault(Harm.GARBAGE, "get", "nodes", times=None), Ending.FAILED),
        (Fault(Harm.REFUSE, "patch", "nodes", status=429, retry_after=0, times=2), Ending.DONE),
    ],
)
def test_what_the_api_server_does_to_it(place: World, fault: Fault, ending: Ending) -> None:
    node = taint_of(place)
    place.server.faults.switch_on(fault)
    assert node.fence(NODE, "i-1", "x", place.after(30)).ending is ending
    expected = Fenced.UNKNOWN if fault.verb == "get" else Fenced.OURS if ending is Ending.DONE else Fenced.NO
    assert node.look(NODE, place.after(5)).fenced is expected
    place.server.faults.switch_off()
    assert node.fence(NODE, "i-1", "x", place.after(30)).ending is Ending.DONE
    assert node_of(place)["taints"] == [OTHERS, OURS]
    place.server.faults.switch_on(Fault(fault.harm, fault.verb, "nodes", status=fault.status, times=1, retry_after=0))
    node.lift(NODE, "i-1", place.after(30))
    place.server.faults.switch_off()
    assert node.lift(NODE, "i-1", place.after(30)).ending is Ending.DONE
    assert node_of(place)["taints"] == [OTHERS]


def test_names_that_are_none_ask_nobody(place: World) -> None:
    node = taint_of(place)
    for name in ("", "a/b", "ALL NODES", "../x"):
        assert node.fence(name, "i-1", "x", place.after(5)).ending is Ending.REFUSED
        assert node.lift(name, "i-1", place.after(5)).ending is Ending.REFUSED
        assert node.look(name, place.after(5)).fenced is Fenced.UNKNOWN
    assert node.fence(NODE, "in cident", "x", place.after(5)).ending is Ending.REFUSED
    assert not place.server.recorder.asked(resource="nodes")


def test_an_incidents_id_fits_into_a_taint() -> None:
    assert short("i-1") == "i-1"
    for one in ("a@b+c", "x" * 128, "+++", "ends-"):
        made = short(one)
        assert len(made) <= 63
        assert made != short(one + "x")
        assert made.replace("-", "").replace(".", "").isalnum()


def test_a_long_id_is_found_again(place: World) -> None:
    incident = "serving.llm.0@2026-01-01T00.00.00+" + "x" * 60
    node = taint_of(place)
    node.fence(NODE, incident, 'ä ~ "quoted" {json}', place.after(5))
    assert node.look(NODE, place.after(5)).incident == incident
    found = fence_of(place.cluster.store.get("nodes", None, NODE))
    assert found is not None
    assert found.at == place.cluster.clock()
    assert node.lift(NODE, incident, place.after(5)).ending is Ending.DONE


def test_a_dry_run_says_what_it_would_send_and_events_say_what_was_done(place: World) -> None:
    node = NodeTaint(None, cordon=True)  # type: ignore[arg-type]
    assert node.would("fence", NODE, "i-1", "Xid 79") == (
        "PATCH nodes/node-0: taint rankmuster.dev/fenced=i-1:NoSchedule, unschedulable, annotation "
        "rankmuster.dev/fenced-by (Xid 79)  # unless others have fenced it",
    )
    assert "incident i-1" in node.would("lift", NODE, "i-1")[0]
    events = Events(place.client, wall=place.cluster.clock)
    acting = taint_of(place, events=events)
    acting.fence(NODE, "i-1", "Xid 79", place.after(5))
    acting.lift(NODE, "i-1", place.after(5))
    events.close(Deadline.after(10))
    told = [one for one in place.cluster.store.list("events", "default") if one["source"]["component"] == "rankmuster"]
    assert sorted((one["reason"], one["involvedObject"]["kind"]) for one in told) == [
        ("FenceLifted", "Node"),
        ("Fenced", "Node"),
    ]
