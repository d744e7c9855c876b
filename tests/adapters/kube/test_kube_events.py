"""Events never hold anything up, and the same words are one event."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from kube_group_world import World, world
from kube_sim.faults import Fault, Harm
from rankmuster.adapters.kube.api import NODES, PODS
from rankmuster.adapters.kube.events import MOST_WAITING, MOST_WORDS, Events, Touched
from rankmuster.adapters.kube.gateways import GATEWAYS, objections
from rankmuster.collect.deadline import Deadline

NODE = Touched(NODES, "node-0", "u-1")


@pytest.fixture
def place() -> Iterator[World]:
    with world(nodes=1) as made:
        yield made


def told(place: World) -> list[dict[str, object]]:
    return [one for one in place.cluster.store.list("events") if one.get("source", {}).get("component") == "rankmuster"]


def test_the_same_words_are_counted(place: World) -> None:
    events = Events(place.client, wall=place.cluster.clock, host="here")
    for _ in range(3):
        events.tell(NODE, "Fenced", "x", warning=True)
        place.cluster.run(1)
    events.tell(NODE, "Fenced", "y")
    events.tell(Touched(PODS, "p", "u-2", "default"), "Fenced", "x")
    place.cluster.run(1000)
    events.tell(NODE, "Fenced", "x", warning=True)
    events.close(Deadline.after(10))
    found = sorted((one["involvedObject"]["name"], one["message"], one["count"], one["type"]) for one in told(place))  # type: ignore[index]
    assert found == [
        ("node-0", "x", 1, "Warning"),
        ("node-0", "x", 3, "Warning"),
        ("node-0", "y", 1, "Normal"),
        ("p", "x", 1, "Normal"),
    ]
    assert events.lost == 0


def test_one_that_was_forgotten_is_made_anew(place: World) -> None:
    events = Events(place.client, wall=place.cluster.clock)
    events.tell(NODE, "Fenced", "x")
    events.close(Deadline.after(10))
    for one in told(place):
        place.cluster.store.delete("events", "default", one["metadata"]["name"])  # type: ignore[index]
    events.tell(NODE, "Fenced", "x")
    events.close(Deadline.after(10))
    assert [one["count"] for one in told(place)] == [1]


def test_words_are_one_bounded_line(place: World) -> None:
    events = Events(place.client, wall=place.cluster.clock)
    events.tell(NODE, "Fenced", "line\nline\x00" + "ä" * 5000)
    events.close(Deadline.after(10))
    message = str(told(place)[0]["message"])
    assert message.startswith("line line ä")
    assert len(message.encode()) <= MOST_WORDS


def test_a_server_that_refuses_or_hangs_holds_nothing_up(place: World) -> None:
    events = Events(place.client, wall=place.cluster.clock)
    place.server.faults.switch_on(Fault(Harm.REFUSE, "create", "events", status=403, times=2))
    events.tell(NODE, "Fenced", "a")
    events.tell(NODE, "Fenced", "b")
    events.close(Deadline.after(10))
    assert events.lost == 2
    place.server.faults.switch_on(Fault(Harm.SLOW, "create", "events", times=None, seconds=1.0))
    before = threading.active_count()
    begun = time.monotonic()
    for number in range(MOST_WAITING + 100):
        events.tell(NODE, "Fenced", str(number))
    events.close(Deadline.after(0.05))
    assert events.lost >= 90
    assert threading.active_count() <= before + 3
    assert time.monotonic() - begun < 30  # it does not wait for the server: no measure of speed


def test_what_gateways_heed_is_a_table() -> None:
    assert objections((), False, None) == ()
    assert objections(("service", "inference_pool"), True, None) == ()
    assert objections(("inference_pool", "production_stack"), False, "llm-d.ai/serving") == ()
    assert len(objections(("sglang", "vllm_router", "production_stack"), True, None)) == 3
    assert len(objections(("sglang", "vllm_router"), True, "app")) == 2
    (said,) = objections(("service",), False, "app")
    assert said == ("a Service does not heed the pool's label: set traffic.readinessGate, and inject with --gate")
    (said,) = objections(("service", "service"), False, None)
    assert said.startswith("a Service would not be told")
    assert objections(("envoy",), True, "x") == ("nobody knows what envoy heeds",)
    assert all(one.source and one.instead for one in GATEWAYS)


def test_every_gateway_of_a_policy_is_in_the_table() -> None:
    from typing import get_args

    from rankmuster.kube.crd.policy import Traffic

    named = get_args(get_args(Traffic.model_fields["gateways"].annotation)[0])
    assert set(named) == {one.name for one in GATEWAYS}
