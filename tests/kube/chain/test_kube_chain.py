"""From a rank that fails to traffic that is back, through real processes: sidecars, agents, controller, API server."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kube_sim.objects import condition, deleting, is_true, labels, name, uid
from kube_sim.pod_process import may_isolate
from kube_stand import CONTROLLER, Stand, of_pods, standing
from rankmuster.model.incident import Event, EventKind, Step
from rankmuster.model.kube import GATE

pytestmark = pytest.mark.skipif(bool(may_isolate()), reason=f"no namespaces here: {may_isolate()}")

MOST_CALLS = 150
"""Of one incident with one fence, and all that the controller reads meanwhile; Leases and watches apart."""


@pytest.fixture
def stand(tmp_path: Path):
    with standing(tmp_path) as made:
        made.start_controller()
        made.wait("the instance serves", lambda: made.serves() and made.progress() == "advancing")
        yield made
        assert made.cluster.problems == []


def closed(stand: Stand) -> Any:
    return next((one for one in stand.incidents() if (one.get("status") or {}).get("outcome")), None)


def until_over(stand: Stand, before: set[str]) -> None:
    stand.wait("another incarnation serves", lambda: not before & stand.uids() and stand.serves(), 120)
    stand.wait("the incident is closed", lambda: closed(stand), 120)


def calls(stand: Stand) -> Counter[tuple[str, str]]:
    """What the controller asked the API server for, without its Lease and its watches."""
    asked = stand.server.recorder.asked(user=CONTROLLER)
    return Counter((one.verb, one.resource) for one in asked if one.verb != "watch" and one.resource != "leases")


def rebuilt_once(stand: Stand, before: set[str], suspect: str) -> None:
    """What has to hold of every run, whatever was killed on the way."""
    print(stand.told())
    pods = of_pods(stand.changes)
    first_deletion = next(place for place, one in enumerate(pods) if deleting(one.obj) and uid(one.obj) in before)
    last = {uid(one.obj): one.obj for one in pods[:first_deletion] if uid(one.obj) in before}
    for pod in last.values():
        gate = condition(pod, GATE)
        assert (gate or {}).get("status") == "False", f"{name(pod)} was deleted behind an open gate"
        assert not is_true(pod, "Ready")
    for one in before:
        with_controller, _ = stand.saved[one]
        assert with_controller, f"pod {one} was deleted before its evidence was saved"
        assert any(one in path.name for path in stand.left[one]), f"nothing of pod {one} was left with its node's agent"
    made = [one.obj for one in pods if one.type == "ADDED"]
    leaders = [one for one in made if labels(one)["leaderworkerset.sigs.k8s.io/worker-index"] == "0"]
    assert (len(leaders), len(made)) == (2, 4), "the group was made anew once, and whole"
    deletes = [one for one in stand.server.recorder.asked(user=CONTROLLER, verb="delete") if one.resource == "pods"]
    assert [one.name for one in deletes if one.status < 300] == ["llm-0"]
    assert len(stand.incidents()) == 1
    found = closed(stand)
    assert found["status"]["outcome"] == "recovered"
    assert found["status"]["class"] == "process_or_device_lost"
    assert found["status"]["suspects"] == found["status"]["fenced"] == [suspect]
    leader = stand.pods()["llm-0"]
    status, answer = stand.ask(f"{leader['status']['podIP']}:8000", "/v1/completions", b"{}")
    assert (status, b"choices" in answer) == (200, True)


def let_in_again(stand: Stand, suspect: str) -> None:
    """The suspect node was kept from new pods, has passed its test, and is let in."""
    assert suspect not in {one["spec"]["nodeName"] for one in stand.pods().values()}
    jobs = stand.store.list("jobs.batch", "rankmuster")
    assert [is_true(one, "Complete") for one in jobs] == [True], "it was tested once"
    assert not (stand.store.get("nodes", None, suspect).get("spec") or {}).get("taints")


def test_a_killed_rank(stand):
    before, suspect = stand.uids(), stand.pods()["llm-0-1"]["spec"]["nodeName"]
    stand.server.recorder.clear()
    stand.signal_rank(3, signal.SIGKILL)
    until_over(stand, before)
    rebuilt_once(stand, before, suspect)
    let_in_again(stand, suspect)
    counted = calls(stand)
    print(f"API calls of one incident: {counted.total()}: {dict(counted)}")
    assert counted.total() <= MOST_CALLS
    assert stand.end_controller() == 0


def begun(step: Step) -> Callable[[list[Event]], bool]:
    return lambda events: any(one.kind is EventKind.STEP_BEGUN and one.step is step for one in events)


def intended(step: Step) -> Callable[[list[Event]], bool]:
    return lambda events: any(one.kind is EventKind.INTENT and one.step is step for one in events)


def test_a_frozen_rank_and_a_controller_that_is_killed_on_the_way(stand):
    before, suspect = stand.uids(), stand.pods()["llm-0-1"]["spec"]["nodeName"]
    stand.signal_rank(3, signal.SIGSTOP)
    stand.kill_when("saving evidence", intended(Step.EVIDENCE))
    stand.kill_when("ending the group", intended(Step.TERMINATE))
    stand.kill_when("giving traffic back", begun(Step.RESTORE))
    until_over(stand, before)
    rebuilt_once(stand, before, suspect)
    let_in_again(stand, suspect)
