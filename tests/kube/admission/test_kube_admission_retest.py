"""Suspect nodes of an incident are tested again by Jobs in a simulated cluster, within the incident's deadline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kube_admission_world import SLOW_RUN, Object, World, alone_payload, said
from test_kube_admission_pairs import side, speeds

from kube_sim.kubelet import Times
from rankmuster.adapters.kube.job_retest import JobRetest
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.admission.retest import judge_alone, judge_pair
from rankmuster.model.incident import NodeRetest, RetestEnding

FENCED = {"key": "rankmuster.dev/fenced", "value": "x", "effect": "NoSchedule"}


class Suspects:
    """A cluster whose suspects are fenced and cordoned, and the re-test of an incident."""

    def __init__(self, folder: Path, pods: Callable[[str, Object], Times], **settings: object) -> None:
        self.world = World(folder, pods=pods, acting=False, **settings)
        for name in ("a", "b"):
            self.world.cluster.node(name, gpus=4, taints=[FENCED])
            self.world.store.patch("nodes", None, name, {"spec": {"unschedulable": True}}, kind="merge")
        self.world.cluster.node("good", gpus=4)
        self.retest = JobRetest(
            self.world.api,
            self.world.settings.job,
            {"pod-a": "a"},
            image="registry.example/rankmuster",
            namespace="rankmuster",
            judge=judge_alone(self.world.history, self.world.settings),
            judge_pair=judge_pair(self.world.settings),
            sleep=self.world.cluster.run,
            wall=self.world.clock,
        )

    def test(
        self, *nodes: str, good: str | None = None, seconds: float = 900.0, short: bool = False
    ) -> list[NodeRetest]:
        deadline = Deadline.after(seconds, self.world.clock)
        found = self.retest.test(nodes, good, "inc-1/retest/1", deadline, short=short)
        assert self.world.clock() <= deadline.at
        assert [one.node for one in found] == list(nodes)
        return list(found)


def test_each_suspect_gets_its_own_answer(tmp_path: Path) -> None:
    tested = Suspects(tmp_path, lambda node, _: said(alone_payload(node, (SLOW_RUN if node == "b" else "ar_1.txt",))))
    one, other = tested.test("pod-a", "b")
    assert (one.ending, other.ending) == (RetestEnding.PASS, RetestEnding.FAIL)
    assert tested.world.history is not None
    assert [record.decision for record in tested.world.history.admissions(node="a")] == ["pass"]
    tested.world.close()


@pytest.mark.parametrize(
    ("times", "ending", "words"),
    [
        (lambda node: Times(start=None), RetestEnding.ERROR, "had not begun"),
        (lambda node: replace(said(alone_payload(node)), run=None), RetestEnding.FAIL, "hung"),
        (lambda node: Times(run=5.0, message="{"), RetestEnding.ERROR, "cannot be read"),
        (lambda node: Times(run=5.0, exit_code=1), RetestEnding.ERROR, "exit status 1"),
        (lambda node: said(alone_payload("elsewhere")), RetestEnding.ERROR, "elsewhere"),
    ],
)
def test_whatever_is_no_result_is_no_pass(
    tmp_path: Path, times: Callable[[str], Times], ending: RetestEnding, words: str
) -> None:
    tested = Suspects(tmp_path, lambda node, _: times(node))
    (one,) = tested.test("a", seconds=300)
    assert (one.ending, words in one.note) == (ending, True), one
    running = [job for job in tested.world.jobs() if (job.get("status") or {}).get("active")]
    assert running == [], "what had not ended was deleted"
    tested.world.close()


def test_the_same_operation_after_a_crash_finds_its_own_job(tmp_path: Path) -> None:
    tested = Suspects(tmp_path, lambda node, _: said(alone_payload(node)))
    tested.test("a")
    (again,) = tested.test("a")
    assert again.ending is RetestEnding.PASS
    assert len(tested.world.jobs()) == 1
    tested.world.close()


def test_a_node_that_is_gone_or_a_time_that_is_short_is_an_error(tmp_path: Path) -> None:
    tested = Suspects(tmp_path, lambda node, _: said(alone_payload(node)))
    gone, _ = tested.test("nowhere", "a")
    assert (gone.ending, "nowhere" in gone.note) == (RetestEnding.ERROR, True)
    jobs = len(tested.world.jobs())
    (late,) = tested.test("b", seconds=10)
    assert (late.ending, "no Job was created" in late.note) == (RetestEnding.ERROR, True)
    assert len(tested.world.jobs()) == jobs
    tested.world.close()


def test_who_passed_alone_is_measured_with_the_good_one_unless_it_has_to_be_short(tmp_path: Path) -> None:
    def pair(node: str, raw: Object) -> object:
        place = int(raw["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
        return side(node, place, 48.0)

    tested = Suspects(tmp_path, speeds(pair), pairs="require", pair_floor=20.0)  # type: ignore[arg-type]
    (one,) = tested.test("a", good="good", seconds=2_000)
    assert (one.alone, one.paired) == (RetestEnding.PASS, RetestEnding.PASS)
    (short,) = tested.test("b", good="good", short=True)
    assert short.paired is None
    assert any("nodes a and good" in line for line in tested.retest.would(("a",), "good", short=False))
    tested.world.close()
