"""What has to hold of an incident in a cluster of processes (`kube_stand`), whatever was killed on the way."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kube_sim.objects import condition, deleting, is_true, labels, name, uid
from kube_stand import CONTROLLER, Stand, of_pods
from rankmuster.model.kube import GATE


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
    assert found["status"]["class"] == "process_or_device_lost", found["status"]["class"]
    assert found["status"]["suspects"] == [suspect]
    leader = stand.pods()["llm-0"]
    status, answer = stand.ask(f"{leader['status']['podIP']}:8000", "/v1/completions", b"{}")
    assert (status, b"choices" in answer) == (200, True)


def let_in_again(stand: Stand, suspect: str) -> None:
    """The suspect node was kept from new pods, has passed its test, and is let in."""
    assert suspect not in {one["spec"]["nodeName"] for one in stand.pods().values()}
    jobs = stand.store.list("jobs.batch", "rankmuster")
    assert [is_true(one, "Complete") for one in jobs] == [True], "it was tested once"
    assert not (stand.store.get("nodes", None, suspect).get("spec") or {}).get("taints")
