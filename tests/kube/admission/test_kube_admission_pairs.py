"""A node that passed alone is measured with a known good one by an Indexed Job: what real ranks said in two pods
(recorded over loopback), with the speed that a test wants."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kube_admission_world import STARTUP, Object, World, alone_payload, condition, old_world, said

from kube_sim.kubelet import Times
from rankmuster.adapters.kube.job_look import Payload
from rankmuster.adapters.kube.job_words import NotSaid
from rankmuster.kube.admission.pair_output import pair_results

HERE = Path(__file__).parent
INDEX = "batch.kubernetes.io/job-completion-index"
RECORDED_GBS = 0.1729882683355924
"""Of the recorded run at its largest size."""


def side(node: str, place: int, gbs: float, *, late: bool = False) -> Payload:
    """What the pod at this place says of a pair that reaches so many GB/s."""
    text = (HERE / f"pair-place-{place}.txt").read_text()
    factor = RECORDED_GBS / gbs
    text = re.sub(r'"time_us":([\d.]+)', lambda found: f'"time_us":{float(found[1]) * factor:.6f}', text)
    parts = {"output": text.encode()}
    if late:
        head = text.splitlines(keepends=True)[:9]
        parts = {"output": "".join(head).encode(), "output.late": b"1"}
    return Payload(kind="pair", node=node, parts=parts)


def speeds(of: Callable[[str, str], Payload | Times]) -> Callable[[str, Object], Times]:
    """Alone all nodes pass; `of`: of a pair, (node, the Job's name) -> what is said."""

    def pod(node: str, raw: Object) -> Times:
        labels = raw["metadata"]["labels"]
        if INDEX not in labels:
            return said(alone_payload(node))
        found = of(node, raw)  # type: ignore[arg-type]
        return found if isinstance(found, Times) else said(found)

    return pod


def place_of(raw: Object) -> int:
    return int(raw["metadata"]["labels"][INDEX])


def pairs_world(folder: Path, of: Callable[..., Payload | Times], good: int = 2, **settings: object) -> World:
    """With so many nodes that have passed."""
    world = old_world(folder, pods=speeds(of), **{"pairs": "require", "pair_floor": 20.0, **settings})
    for number in range(good):
        world.cluster.node(f"good{number}", gpus=4, taints=[STARTUP])
        assert world.turns(lambda number=number: world.phase(f"good{number}") == "Passed")  # type: ignore[misc]
    return world


def fast(node: str, raw: Object) -> Payload:
    return side(node, place_of(raw), 48.0)


def test_a_new_node_passes_after_a_fast_pair(tmp_path: Path) -> None:
    world = pairs_world(tmp_path, fast)
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("fresh") == "Passed")
    status = world.now("fresh")["status"]
    assert [round(one["busbw"]) for one in status["pairs"]] == [48]
    assert not world.tainted("fresh")
    (job,) = [one for one in world.jobs() if one["spec"]["completions"] == 2 and "fresh" in one["metadata"]["name"]]
    pods = [
        one
        for one in world.store.list("pods", "rankmuster")
        if one["metadata"]["name"].startswith(job["metadata"]["name"])
    ]
    assert {one["spec"]["nodeName"] for one in pods} == {"fresh", status["pairs"][0]["withNode"]}
    service = world.store.get("services", "rankmuster", job["metadata"]["name"])
    assert service["spec"]["clusterIP"] == "None"
    assert world.history is not None
    assert {one.profile for one in world.history.admissions(node="fresh")} >= {"pairs"}
    world.close()


def test_the_first_nodes_of_a_kind_pass_alone_since_nobody_is_there_to_measure_them_with(tmp_path: Path) -> None:
    world = pairs_world(tmp_path, fast, good=1)
    reasons = world.now("good0")["status"]["reasons"]
    assert any("no known good node" in one for one in reasons)
    world.close()


def test_a_node_that_is_slow_with_two_good_ones_is_refused(tmp_path: Path) -> None:
    def slow_with_fresh(node: str, raw: Object) -> Payload:
        return side(node, place_of(raw), 9.0 if "fresh" in raw["metadata"]["name"] else 48.0)

    world = pairs_world(tmp_path, slow_with_fresh)
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("fresh") == "Refused")
    status = world.now("fresh")["status"]
    assert {one["withNode"] for one in status["pairs"]} == {"good0", "good1"}
    assert world.tainted("fresh")
    assert status["decision"] == "pass", "alone it had passed"
    world.close()


def test_a_node_that_is_slow_with_the_only_good_one_is_held(tmp_path: Path) -> None:
    def slow(node: str, raw: Object) -> Payload:
        return side(node, place_of(raw), 9.0)

    world = pairs_world(tmp_path, slow, good=1)
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("fresh") == "Provisional")
    assert world.tainted("fresh")
    world.close()


def test_a_pair_that_hangs_refuses(tmp_path: Path) -> None:
    def hangs(node: str, raw: Object) -> Payload:
        fresh = "fresh" in raw["metadata"]["name"]
        return side(node, place_of(raw), 48.0, late=fresh)

    world = pairs_world(tmp_path, hangs)
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("fresh") == "Refused")
    assert all(one["reason"].startswith("hung") for one in world.now("fresh")["status"]["pairs"])
    assert world.tainted("fresh")
    world.close()


def test_a_pair_whose_job_comes_to_nothing_is_tried_with_bounds(tmp_path: Path) -> None:
    def garbage(node: str, raw: Object) -> Payload | Times:
        return Times(run=5.0, message="{") if "fresh" in raw["metadata"]["name"] else fast(node, raw)

    world = pairs_world(tmp_path, garbage, attempts=2)
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("fresh") == "Error")
    assert world.now("fresh")["status"]["pairAttempts"] == 2
    world.turns(lambda: False, seconds=3_000, every=60)
    assert world.tainted("fresh")
    assert world.phase("fresh") == "Error"
    world.close()


@pytest.mark.parametrize(("pairs", "phase"), [("require", "Testing"), ("try", "Passed")])
def test_good_nodes_that_all_serve_are_waited_for(tmp_path: Path, pairs: str, phase: str) -> None:
    world = pairs_world(tmp_path, fast, pairs=pairs, pair_wait_seconds=600.0)
    for number in range(2):
        container = {"name": "x", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
        spec = {"containers": [container], "nodeName": f"good{number}"}
        metadata = {"name": f"serving{number}", "namespace": "default"}
        world.store.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    world.turns(lambda: False, seconds=1_500, every=30)
    assert world.phase("fresh") == phase
    if pairs == "require":
        assert condition(world.now("fresh"), "Tested")["reason"] == "WaitsForGoodNode"
        world.store.delete("pods", "default", "serving1", grace=0)
        assert world.turns(lambda: world.phase("fresh") == "Passed")
    else:
        assert any("no good node was idle" in one for one in world.now("fresh")["status"]["reasons"])
    world.close()


def test_pods_that_measured_different_things_are_no_pair() -> None:
    one, other = side("a", 0, 40.0), side("b", 1, 40.0)
    (result,) = pair_results({"a": one, "b": other}, "a", "b", 60.0)
    assert result.busbw == pytest.approx(40.0, rel=1e-3)
    for odd in (
        Payload(kind="alone", node="b", parts=other.parts),
        Payload(kind="pair", node="b", parts={}),
        Payload(kind="pair", node="b", parts={"output:0": b""}),
        Payload(kind="pair", node="b", parts={"output:x": b""}),
    ):
        with pytest.raises(NotSaid):
            pair_results({"a": one, "b": odd}, "a", "b", 60.0)
    silent = Payload(kind="pair", node="x", parts={"output": b"\xff\x00 nobody speaks"})
    with pytest.raises(NotSaid, match="nothing was measured"):
        pair_results({"a": silent, "b": silent}, "a", "b", 60.0)
