"""What happens beside a runbook while it goes on: people rebuild the group, clocks are set, a process stands still, a
supervisor is away for a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from incident_world import (
    DESYNC,
    GPU_LOST,
    Faulty,
    Memory,
    World,
    WorldEvidence,
    WorldGroup,
    WorldProbe,
    WorldTraffic,
    answers,
    opening,
)
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.runner import Stopped
from rankmuster.model.incident import Answer, Ending, Event, EventKind, GroupLook, GroupState, Outcome, Step, UseKind
from run_incident import QUICK, Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def when(kind: EventKind, step: Step, do: Callable[[], object]) -> Callable[[Event], None]:
    """Does it once, right after that was written."""
    left = [do]

    def told(event: Event) -> None:
        if event.kind is kind and event.step is step and left:
            left.pop()()

    return told


def somebody_starts(rig: Rig) -> None:
    """By hand, and it does not serve yet."""
    with rig.world.store.edit() as world:
        world["group"].update(number=7, state="running", operation="")
        world["works"] = False


@pytest.mark.parametrize(
    ("kind", "step"),
    [(EventKind.STEP_BEGUN, Step.CUT), (EventKind.STEP_ENDED, Step.TERMINATE), (EventKind.INTENT, Step.START)],
)
def test_what_somebody_else_has_started_meanwhile_is_never_ended(tmp_path: Path, kind: EventKind, step: Step) -> None:
    """Not even where it does not serve by the total deadline, when the GPUs of a group of ours would be freed."""
    rig = Rig(tmp_path, config=IncidentConfig(budget={**QUICK, Step.VERIFY: 30.0}, total_seconds=2.5))

    ran = rig.run(told=when(kind, step, lambda: somebody_starts(rig)))

    assert ran.incident.closed is Outcome.GAVE_UP
    assert "inc-7" not in rig.world.state["terminated"], ran.notes()
    assert rig.world.state["group"]["state"] == "running"
    assert "started by somebody else" in ran.ended(Step.TERMINATE).note
    assert rig.world.state["gateways"]["front"]["state"] == "cut"


def test_what_somebody_else_has_started_gets_traffic_after_a_resume_once_it_serves(tmp_path: Path) -> None:
    rig = Rig(tmp_path, config=IncidentConfig(budget={**QUICK, Step.VERIFY: 1.5}))
    ran = rig.run(told=when(EventKind.STEP_ENDED, Step.TERMINATE, lambda: somebody_starts(rig)))
    assert ran.incident.closed is Outcome.FAILED
    with rig.world.store.edit() as world:
        world["works"] = True
    with rig.journal() as journal:
        journal.tell(ran.incident.id, Event(kind=EventKind.REOPENED, at=time.time(), by="me"))
        assert rig.runner(journal).run(ran.incident.id).closed is Outcome.RECOVERED
    assert rig.world.state["terminated"] == ["inc-1"]
    assert rig.world.state["gateways"]["front"]["state"] == "ready"


def test_a_start_of_ours_that_does_not_serve_is_ended_at_the_total_deadline(tmp_path: Path) -> None:
    rig = Rig(tmp_path, config=IncidentConfig(budget={**QUICK, Step.VERIFY: 30.0}, total_seconds=2.5))
    ran = rig.run(rig.world.tools(group=WorldGroup(rig.world.store, broken=True)))
    assert ran.incident.closed is Outcome.GAVE_UP
    assert rig.world.state["terminated"] == ["inc-1", "inc-2"]


@pytest.mark.parametrize("set_by", [3600.0, -3600.0])
def test_a_clock_that_is_set_moves_no_deadline(tmp_path: Path, set_by: float) -> None:
    """While evidence is taken: no group is ended before that is there, and nothing is waited for an hour longer."""
    rig = Rig(tmp_path, config=IncidentConfig(budget=QUICK, undecided="rebuild"))
    ahead = [0.0]

    def slow(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        time.sleep(0.5)
        return call(*arguments, **named)

    evidence = Faulty(WorldEvidence(rig.world.store, DESYNC), collect=slow)
    ran = rig.run(
        rig.world.tools(evidence=evidence),
        told=when(EventKind.INTENT, Step.EVIDENCE, lambda: ahead.__setitem__(0, set_by)),
        unix_now=lambda: time.time() + ahead[0],
    )

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert ran.incident.deadline is None
    assert rig.world.state["order"].index("evidence") < rig.world.state["order"].index("terminate:inc-1")
    assert max(one.at for one in ran.events) - min(one.at for one in ran.events) < 60


def test_a_watch_is_believed_though_its_clock_was_set_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    behind = [0.0]

    def seen() -> Any:
        found = rig.world.seen()
        assert found is not None
        return type(found)(found.progress, found.incarnation, found.at - behind[0])

    ran = rig.run(
        rig.world.tools(probe=None),
        told=when(EventKind.STEP_ENDED, Step.EVIDENCE, lambda: behind.__setitem__(0, 3600.0)),
        unix_now=lambda: time.time() - behind[0],
        seen=seen,
    )
    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()


def test_a_supervisor_that_is_away_when_the_group_is_to_be_started_is_asked_again(rig: Rig) -> None:
    """It is started anew itself, say: nobody answers for a second, and nobody can look."""
    away = threading.Event()
    group = WorldGroup(rig.world.store)

    def start(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if away.is_set():
            return Answer(ending=Ending.FAILED, note="connection refused", data={"sent": False})
        return call(*arguments, **named)

    def look(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return GroupLook(state=GroupState.UNKNOWN) if away.is_set() else call(*arguments, **named)

    def leaves() -> None:
        away.set()
        threading.Timer(0.7, away.clear).start()

    ran = rig.run(
        rig.world.tools(group=Faulty(group, start=start, look=look)),
        told=when(EventKind.STEP_ENDED, Step.TERMINATE, leaves),
    )
    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["starts"] == ["inc-2"]


def test_a_start_that_may_have_been_heard_is_not_asked_for_again_unseen(rig: Rig) -> None:
    group = Faulty(
        WorldGroup(rig.world.store),
        start=answers(Answer(ending=Ending.FAILED, note="it went away while it was asked", data={"sent": True})),
        look=answers(GroupLook(state=GroupState.UNKNOWN)),
    )
    ran = rig.run(rig.world.tools(group=group))
    assert ran.incident.closed is Outcome.FAILED
    assert group.calls.count("start") <= 1


@pytest.mark.parametrize("step", [Step.TERMINATE, Step.START])
def test_a_runner_that_stood_still_before_a_call_does_not_make_it(tmp_path: Path, step: Step) -> None:
    """Its process was stopped for longer than its lease, with the intent on disk and the lease looked at: whoever has
    taken over has ended or started what there was, and a late call would be beside that."""
    rig = Rig(tmp_path, config=IncidentConfig(budget={**QUICK, Step.START: 60.0, Step.TERMINATE: 60.0}))
    stands, stood = threading.Event(), [0.0]

    def clock() -> float:
        if stands.is_set() and threading.current_thread().name == "incident-call":
            stands.clear()
            stood[0] += 20.0
        return time.monotonic() + stood[0]

    with rig.journal() as journal:
        runner = rig.runner(journal, clock=clock, told=when(EventKind.INTENT, step, stands.set))
        name = runner.open(opening())
        with pytest.raises(Stopped):
            runner.run(name)
        assert rig.world.state["starts" if step is Step.START else "terminated"] == []

        assert rig.runner(journal).run(name).closed is Outcome.RECOVERED
    assert rig.world.state["starts"] == ["inc-2"]


def test_a_stop_that_takes_effect_after_traffic_was_given_back_is_put_right_by_another_restore(rig: Rig) -> None:
    """The gateway gave up waiting for its own work, which comes to its end when RESTORE has long been done."""
    gateway = WorldTraffic(rig.world.store)
    asked: list[str] = []

    def later(call: Callable[..., Any], *arguments: Any, **named: Any) -> Answer:
        asked.append("stop_new")
        return Answer(ending=Ending.TIMED_OUT, note="the gateway is slow")

    ran = rig.run(
        rig.world.tools(traffic=(Faulty(gateway, stop_new=later),)),
        told=when(EventKind.STEP_ENDED, Step.RESTORE, lambda: gateway._set("stop_new", state="stopped")),
    )

    assert asked
    assert ran.incident.closed is Outcome.RECOVERED
    [again] = [one for one in ran.events if one.kind is EventKind.PLANNED and one.note.startswith("put right")]
    assert [one["step"] for one in again.data["steps"]] == ["restore"]
    assert len([one for one in ran.events if one.kind is EventKind.STEP_BEGUN and one.step is Step.RESTORE]) == 2
    assert rig.world.state["gateways"]["front"]["state"] == "ready"


def test_a_probe_that_serves_is_no_word_of_a_group_that_has_ended_since(rig: Rig) -> None:
    """It ends between the last look at it and the end of the incident: that is said, and opens the next one."""

    def ends() -> None:
        with rig.world.store.edit() as world:
            world["group"].update(state="ended", by_itself=True)
            world["works"] = False

    ran = rig.run(
        rig.world.tools(probe=WorldProbe(rig.world.store)), told=when(EventKind.STEP_ENDED, Step.VERIFY, ends)
    )
    assert "has ended since" in ran.events[-1].note


def test_fences_that_were_allowed_and_never_made_count_no_longer(tmp_path: Path) -> None:
    """Nobody has approved them in time."""
    budget = {**QUICK, Step.APPROVE: 0.5}
    rig = Rig(tmp_path, World(Memory(), found=GPU_LOST), IncidentConfig(budget=budget, approve=(Step.FENCE,)))
    ran = rig.run()
    assert ran.incident.closed is Outcome.HELD
    with rig.journal() as journal:
        fences = [one for one in journal.uses(ran.incident.id) if one.kind is UseKind.FENCE]
    assert [one.subject for one in fences] == ["n2"]
    assert fences[0].ended_at is not None
    assert rig.world.state["fenced"] == []
