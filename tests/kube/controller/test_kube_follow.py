"""What opens an incident in a cluster, and what does not."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from kube_parts import engine, pod, policy, sidecar, workload
from rankmuster.adapters.kube.agent_wire import NoAnswer
from rankmuster.kube.controller.fleet import Fleet
from rankmuster.kube.controller.follow import KubeFollower
from rankmuster.kube.controller.states import States
from rankmuster.model.fault import Progress
from rankmuster.model.incident import IncidentHead, OpenedBy, Outcome
from rankmuster.model.kube import PodView
from rankmuster.watch.export.snapshot_json import to_json
from rankmuster.watch.snapshot import InstanceView, Snapshot, WatcherView

NOW = 1_000_000.0


class Sidecars:
    """What the pods' sidecars answer: a part of the outside world. `skew`: of the pods' clocks."""

    def __init__(self) -> None:
        self.state = Progress.ADVANCING
        self.since, self.skew, self.name = NOW - 30.0, 0.0, "prod.llm.0"
        self.silent: set[str] = set()
        self.raw: Any = None
        self.asked: list[str] = []

    def __call__(self, one: PodView, deadline: Any, *, port: int = 0) -> Any:
        self.asked.append(one.name)
        if one.name in self.silent:
            raise NoAnswer(f"{one.name} did not answer")
        if self.raw is not None:
            return self.raw
        view = InstanceView(self.name, self.state, self.since + self.skew, "tokens stand still", incarnation="watch:1")
        return to_json(Snapshot("llm-0", NOW - 1.0 + self.skew, WatcherView("1", 0.0, 5.0), (view,)))


class Asked:
    def __init__(self, sidecars: Sidecars) -> None:
        self.state = sidecars


class Rig:
    def __init__(self, **spec: Any) -> None:
        self.now = NOW
        self.monotonic = 0.0
        self.sidecars = Sidecars()
        self.fleet = Fleet()
        self.newest: IncidentHead | None = None
        self.ready = True
        for one in (pod(), pod(1)):
            self.fleet.pod(one)
        self.fleet.workload(workload())
        self.fleet.policy(policy(**spec))
        self.fleet.settle()
        self.states = States(
            Asked(self.sidecars),  # type: ignore[arg-type]
            period=5.0,
            at_once=2,
            port=9465,
            clock=lambda: self.monotonic,
            unix_now=lambda: self.now,
        )
        self.follower = KubeFollower(
            self.fleet, self.states, lambda _: self.newest, unix_now=lambda: self.now, ready=lambda: self.ready
        )

    def hear(self) -> None:
        self.monotonic += 5.0
        self.states.turn(self.fleet.instances())
        while self.states._asked:
            threading.Event().wait(0.002)

    def pods(self, *pods: PodView) -> None:
        self.fleet.only_pods(pods, self.fleet.listing())
        for one in pods:
            self.fleet.pod(one)
        self.fleet.settle()


@pytest.fixture
def rig() -> Any:
    made = Rig()
    yield made
    made.states.close()


def test_a_stop_that_a_sidecar_tells_opens_one(rig: Rig) -> None:
    rig.hear()
    assert rig.follower.poll() == ()
    rig.sidecars.state = Progress.STOPPED
    rig.hear()
    (opening,) = rig.follower.poll()
    assert (opening.instance, opening.by, opening.incarnation) == ("prod.llm.0", OpenedBy.STOPPED, "uid-llm-0")
    assert opening.since == rig.sidecars.since
    assert opening.at == NOW
    assert set(rig.sidecars.asked) == {"llm-0"}


def test_nothing_is_opened_before_everything_is_known(rig: Rig) -> None:
    rig.sidecars.state = Progress.STOPPED
    rig.hear()
    rig.ready = False
    assert rig.follower.poll() == ()
    assert "nothing is opened" in (rig.follower.problem or "")


@pytest.mark.parametrize("skew", [7_200.0, -7_200.0])
def test_clocks_that_differ_move_no_stop(rig: Rig, skew: float) -> None:
    rig.sidecars.state, rig.sidecars.skew = Progress.STOPPED, skew
    rig.hear()
    (opening,) = rig.follower.poll()
    assert opening.since is not None
    assert abs(opening.since - rig.sidecars.since) <= 10.0  # two periods of the watch
    state = rig.states.state("prod.llm.0")
    assert state is not None
    assert abs(state.skew - skew) <= 10.0


def test_a_stop_of_pods_that_were_started_since_says_nothing(rig: Rig) -> None:
    rig.sidecars.state = Progress.STOPPED
    rig.hear()
    restarted = replace(pod(1), containers=(engine(started_at=NOW, restarts=1), sidecar()))
    rig.pods(pod(), restarted)
    assert rig.follower.poll() == ()


def test_a_stop_of_pods_that_are_gone_says_nothing(rig: Rig) -> None:
    rig.sidecars.state = Progress.STOPPED
    rig.hear()
    rig.pods(pod(uid="another"), pod(1, uid="another-1"))
    assert rig.follower.poll() == ()
    rig.pods(replace(pod(), deleting=True), pod(1))
    assert rig.follower.poll() == ()


def test_another_pod_is_asked_where_the_leader_is_silent(rig: Rig) -> None:
    rig.sidecars.silent = {"llm-0"}
    rig.sidecars.state = Progress.STOPPED
    rig.hear()
    assert len(rig.follower.poll()) == 1
    assert rig.sidecars.asked == ["llm-0", "llm-0-1"]


def test_silence_is_no_stop_and_is_told(rig: Rig) -> None:
    rig.sidecars.state = Progress.STOPPED
    rig.hear()
    rig.sidecars.silent = {"llm-0", "llm-0-1"}
    rig.hear()
    assert len(rig.follower.poll()) == 1  # the last answer stands for a while
    rig.monotonic += 60.0
    assert rig.follower.poll() == ()
    state = rig.states.state("prod.llm.0")
    assert state is not None
    assert "not been heard" in state.problem
    rig.states.turn(())
    assert rig.states.state("prod.llm.0") is None


@pytest.mark.parametrize("raw", [{}, {"schema": "other"}, {"schema": "rankmuster.watch/1", "instances": 5}, []])
def test_an_answer_that_is_no_snapshot_is_told(rig: Rig, raw: Any) -> None:
    rig.sidecars.raw = raw
    rig.hear()
    state = rig.states.state("prod.llm.0")
    assert state is not None
    assert "no snapshot" in state.problem
    assert rig.follower.poll() == ()


@pytest.mark.parametrize("state", [Progress.UNKNOWN, Progress.IDLE, Progress.STARTING, Progress.DRAINING])
def test_what_is_no_stop_opens_nothing(rig: Rig, state: Progress) -> None:
    rig.sidecars.state = state
    rig.hear()
    assert rig.follower.poll() == ()


def test_engines_that_have_all_ended_open_one(rig: Rig) -> None:
    def ended(worker: int, at: float, **more: Any) -> PodView:
        box = engine(running=False, ready=False, ended_at=at, **more)
        return replace(pod(worker), ready=False, containers=(box, sidecar()))

    rig.pods(ended(0, NOW - 2.0, exit_code=1), pod(1))
    assert rig.follower.poll() == ()  # one still runs: a group that is partly gone is the watch's to judge
    rig.pods(ended(0, NOW - 2.0, exit_code=1), ended(1, NOW - 5.0, signal=9, exit_code=137))
    (opening,) = rig.follower.poll()
    assert opening.by is OpenedBy.ENDED
    assert "signal 9" in opening.reason
    assert opening.since == NOW - 5.0
    head = IncidentHead(id="1", instance="prod.llm.0", incarnation="uid-llm-0", opened_at=NOW, by=OpenedBy.ENDED)
    rig.newest = replace(head, closed_at=NOW, outcome=Outcome.OBSERVED)
    rig.pods(ended(0, NOW + 3600.0, exit_code=1), ended(1, NOW + 3600.0, exit_code=1))
    assert rig.follower.poll() == ()  # of a node whose clock is ahead: once
    rig.newest = None
    assert rig.follower.poll()[0].since == NOW
    rig.pods(ended(0, NOW, exit_code=1), replace(ended(1, NOW, exit_code=1), disruption="EvictionByEvictionAPI"))
    assert rig.follower.poll() == ()  # somebody moves it


def test_a_pod_whose_engine_has_not_begun_has_not_ended(rig: Rig) -> None:
    waits = replace(pod(), containers=(engine(running=False, ready=False, started_at=None), sidecar()))
    rig.pods(waits, replace(waits, name="llm-0-1", uid="uid-llm-0-1", labels=pod(1).labels))
    assert rig.follower.poll() == ()


def test_a_stop_is_handled_once(rig: Rig) -> None:
    rig.sidecars.state = Progress.STOPPED
    rig.hear()
    head = IncidentHead(id="1", instance="prod.llm.0", incarnation=None, opened_at=NOW, by=OpenedBy.STOPPED)
    rig.newest = head
    assert rig.follower.poll() == ()
    rig.newest = replace(head, closed_at=NOW, outcome=Outcome.FAILED)
    assert rig.follower.poll() == ()  # it has lasted since before that was closed
    # of a controller whose clock was an hour ahead, or while traffic was being given back
    before = replace(head, closed_at=NOW + 3600.0, outcome=Outcome.RECOVERED, incarnation="uid-before")
    rig.newest = before
    assert len(rig.follower.poll()) == 1
    rig.newest = replace(before, incarnation="uid-llm-0")
    assert rig.follower.poll() == ()
    rig.newest = replace(head, closed_at=NOW - 40.0, outcome=Outcome.RECOVERED)
    assert len(rig.follower.poll()) == 1


def test_a_paused_policy_and_a_doubtful_instance_open_nothing() -> None:
    rig = Rig(paused=True)
    rig.sidecars.state = Progress.STOPPED
    rig.hear()
    assert rig.follower.poll() == ()
    rig.fleet.policy(policy())
    stray = replace(pod(1), labels={**pod(1).labels, "leaderworkerset.sigs.k8s.io/group-key": "another"})
    rig.pods(pod(), stray)
    (known,) = rig.fleet.instances()
    assert known.view.problem
    assert rig.follower.poll() == ()
    rig.states.close()
