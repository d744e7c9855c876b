"""Whatever a Job comes to but a believed record that passed: the node stays out, the attempts are bounded, and what
happened is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kube_admission_world import STARTUP, Object, World, alone_payload, condition, old_world, said

from kube_sim.kubelet import Times
from rankmuster.report.admission_json import digest

GPU = "nvidia.com/gpu"


def good(node: str) -> Times:
    return said(alone_payload(node))


def changed(node: str, old: str, new: str) -> Times:
    times = good(node)
    assert old in times.log
    return replace(times, log=times.log.replace(old, new, 1))


def flipped(node: str) -> Times:
    """One character of the packed result is another."""
    log = good(node).log
    place = log.index("RESULT-----") + 400
    return replace(good(node), log=log[:place] + ("A" if log[place] != "A" else "B") + log[place + 1 :])


def undecided(node: str) -> Times:
    """Its record is whole and says that it was an error, though no check does."""
    payload = alone_payload(node)
    document = json.loads(payload.parts["record"])
    document |= {"decision": "error", "reasons": ["the clock was set back"]}
    document["hash"] = digest(document)
    parts = {**payload.parts, "record": json.dumps(document).encode()}
    return said(replace(payload, decision="error", parts=parts))


ODD: dict[str, tuple[Callable[[str], Times], str, str]] = {
    "it hangs": (lambda node: replace(good(node), run=None), "Hung", "did not end in its time"),
    "its own limit ended it": (
        lambda node: replace(good(node), exit_code=3, message=good(node).message.replace('"done"', '"late"')),
        "Hung",
        "late: ",
    ),
    "it fails without a word": (lambda node: Times(run=5.0, exit_code=137), "Failed", "no termination message"),
    "it never starts": (lambda node: Times(start=None), "NotStarted", "did not start within"),
    "it says nothing": (lambda node: Times(run=5.0), "NotBelieved", "no termination message"),
    "it says garbage": (lambda node: Times(run=5.0, message="\x00{[["), "NotBelieved", "cannot be read"),
    "its log is empty": (lambda node: replace(good(node), log=""), "NotBelieved", "no whole result"),
    "its log is cut": (
        lambda node: replace(good(node), log=good(node).log[-300:]),
        "NotBelieved",
        "no whole result",
    ),
    "its log was changed": (flipped, "NotBelieved", "the result in its log"),
    "another result is in its log": (
        lambda node: replace(good(node), log=said(alone_payload("elsewhere")).log),
        "NotBelieved",
        "another hash",
    ),
    "it tells of another node": (lambda node: said(alone_payload("elsewhere")), "OtherNode", "elsewhere"),
    "the record is of another node": (
        lambda node: said(replace(alone_payload("elsewhere"), node=node)),
        "NotBelieved",
        "fresh was asked for",
    ),
    "the record was edited": (
        lambda node: said(
            replace(
                alone_payload(node),
                parts={
                    **alone_payload(node).parts,
                    "record": alone_payload(node).parts["record"].replace(b'"provisional"', b'"pass"', 1),
                },
            )
        ),
        "NotBelieved",
        "not as it was written",
    ),
    "the record says error": (undecided, "Undecided", "the clock was set back"),
    "it has no fingerprint": (
        lambda node: said(replace(alone_payload(node), parts={"record": alone_payload(node).parts["record"]})),
        "NotBelieved",
        "fingerprint",
    ),
}


@pytest.mark.parametrize("case", sorted(ODD))
def test_it_is_no_pass(tmp_path: Path, case: str) -> None:
    pod, reason, words = ODD[case]
    world = old_world(tmp_path, attempts=2, pods=lambda node, _: pod(node), job={"seconds": 300.0})
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("fresh") == "Error", every=30)
    tested = condition(world.now("fresh"), "Tested")
    assert (tested["status"], tested["reason"]) == ("False", reason), tested
    assert words in tested["message"]
    assert world.turns(lambda: world.now("fresh")["status"]["attempts"] == 2, every=30)
    world.turns(lambda: False, seconds=4_000, every=100)
    assert world.phase("fresh") == "Error"
    assert "spec.again" in condition(world.now("fresh"), "Tested")["message"]
    assert world.tainted("fresh")
    assert sum(verb == "create" and kind == "jobs" for verb, kind, _ in world.api.writes) == 2
    world.close()


def pod_of(world: World) -> Object:
    return next(one for one in world.store.list("pods", "rankmuster") if one["status"]["phase"] == "Running")


def test_a_pod_that_is_evicted_is_no_pass(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: [one for one in world.store.list("pods") if one["status"].get("phase") == "Running"])
    world.cluster.kubelet.evict("rankmuster", pod_of(world)["metadata"]["name"])
    assert world.turns(lambda: world.phase("fresh") == "Error")
    assert condition(world.now("fresh"), "Tested")["reason"] == "Evicted"
    assert world.tainted("fresh")
    assert world.turns(lambda: world.phase("fresh") == "Passed"), "the next attempt was left alone"
    world.close()


def test_a_job_that_somebody_deletes_is_no_pass(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(world.jobs)
    world.store.delete("jobs.batch", "rankmuster", world.jobs()[0]["metadata"]["name"], propagation="Background")
    assert world.turns(lambda: world.phase("fresh") == "Error")
    assert condition(world.now("fresh"), "Tested")["reason"] == "PodGone"
    assert world.tainted("fresh")
    world.close()


def test_a_job_of_somebody_else_with_that_name_is_left_alone(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x"}]}}}

    def in_the_way(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("create", "jobs") and name.endswith("-1"):
            metadata = {"name": name, "namespace": "rankmuster"}
            world.store.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})

    world.api.before = in_the_way
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("fresh") == "Error")
    assert "none of ours" in condition(world.now("fresh"), "Tested")["message"]
    assert world.turns(lambda: world.phase("fresh") == "Passed")
    assert any(one["metadata"]["name"].endswith("-0-1") for one in world.jobs())
    world.close()


def test_gpus_that_somebody_uses_are_waited_for(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    container = {"name": "x", "image": "x", "resources": {"limits": {GPU: "1"}}}
    pod = {"metadata": {"name": "serving", "namespace": "default"}, "spec": {"containers": [container]}}
    world.cluster.node("busy", gpus=4)
    world.store.create({"apiVersion": "v1", "kind": "Pod", **pod, "spec": {**pod["spec"], "nodeName": "busy"}})
    world.turns(lambda: False, seconds=900)
    assert world.tainted("busy")
    tested = condition(world.now("busy"), "Tested")
    assert (tested["reason"], "default/serving" in tested["message"]) == ("InUse", True)
    assert world.jobs() == []
    world.store.delete("pods", "default", "serving", grace=0)
    assert world.turns(lambda: world.phase("busy") == "Passed")
    world.close()


def test_a_history_that_cannot_be_read_decides_nothing(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(world.jobs)
    place = tmp_path / "history.db"
    whole = place.read_bytes()
    assert world.history is not None
    world.history.close()
    place.write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)
    for beside in tmp_path.glob("history.db-*"):
        beside.unlink()
    world.turns(lambda: False, seconds=600)
    assert world.phase("fresh") == "Testing"
    assert world.tainted("fresh")
    place.write_bytes(whole)
    for beside in tmp_path.glob("history.db-*"):
        beside.unlink()
    assert world.turns(lambda: world.phase("fresh") == "Passed")
    world.close()
