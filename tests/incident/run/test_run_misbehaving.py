"""Actuators that hang, fail, lie, answer late or raise: deadlines hold, and nothing is believed unseen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from incident_world import (
    GPU_LOST,
    Faulty,
    Memory,
    World,
    WorldRetest,
    WorldTraffic,
    answers,
    at_first,
    fails,
    hangs,
    lies,
    opening,
    raises,
    says_failed_and_does_it,
    takes_effect_at,
)
from rankmuster.incident.config import IncidentConfig
from rankmuster.model.fault import Progress
from rankmuster.model.incident import (
    Answer,
    Ending,
    EventKind,
    Fenced,
    GroupLook,
    GroupState,
    NodeLook,
    OpenedBy,
    Outcome,
    RetestEnding,
    Step,
    TrafficLook,
    TrafficState,
)
from run_incident import QUICK, Ran, Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def within_its_time(ran: Ran, step: Step, slack: float = 3.0) -> bool:
    """A step ends about its deadline: `slack` is for a busy machine."""
    begun = next(one for one in ran.events if one.kind is EventKind.STEP_BEGUN and one.step is step)
    ended = ran.ended(step)
    return bool(ended.at <= begun.data["deadline_at"] + slack)


# -- gateways


def test_a_gateway_that_hangs_takes_its_own_time_and_no_more(rig: Rig, release: threading.Event) -> None:
    gateway = Faulty(WorldTraffic(rig.world.store), stop_new=hangs(release))

    ran = rig.run(rig.world.tools(traffic=(gateway,)))

    assert ran.ending(Step.STOP_TRAFFIC) is Ending.TIMED_OUT
    assert within_its_time(ran, Step.STOP_TRAFFIC)
    assert rig.world.state["starts"] == ["inc-2"], ran.notes()
    # the call is still in there, so nothing else was asked of that gateway
    assert gateway.calls.count("cut") == 0
    assert "has not returned" in ran.ended(Step.CUT).note
    assert "a call has still not come back" in ran.events[-1].note


def test_one_gateway_that_hangs_takes_nothing_from_the_other(rig: Rig, release: threading.Event) -> None:
    rig.world.state["gateways"]["back"] = {"state": "ready", "percent": 100.0, "running": 1}
    sick = Faulty(WorldTraffic(rig.world.store, "back"), stop_new=hangs(release))

    ran = rig.run(rig.world.tools(traffic=(sick, WorldTraffic(rig.world.store))))

    assert ran.ending(Step.STOP_TRAFFIC) is Ending.PARTIAL
    assert rig.world.state["order"][0] in ("front:stop_new", "evidence")
    assert rig.world.state["gateways"]["front"]["state"] == "ready", ran.notes()


def test_a_gateway_that_fails_at_first_is_asked_again(rig: Rig) -> None:
    gateway = Faulty(WorldTraffic(rig.world.store), stop_new=at_first(1, fails))

    ran = rig.run(rig.world.tools(traffic=(gateway,)))

    assert ran.ending(Step.STOP_TRAFFIC) is Ending.DONE
    assert ran.results(Step.STOP_TRAFFIC)[0].data["attempts"] == 2


def test_a_gateway_that_says_done_is_not_believed_where_a_look_shows_otherwise(rig: Rig) -> None:
    gateway = Faulty(WorldTraffic(rig.world.store), stop_new=lies)

    ran = rig.run(rig.world.tools(traffic=(gateway,)))

    assert ran.ending(Step.STOP_TRAFFIC) is Ending.FAILED
    assert "it said done (all is well), and a look shows otherwise: it is ready" in ran.ended(Step.STOP_TRAFFIC).note


def test_a_gateway_whose_answer_was_lost_is_seen_to_have_done_it(rig: Rig) -> None:
    gateway = Faulty(WorldTraffic(rig.world.store), stop_new=says_failed_and_does_it)

    ran = rig.run(rig.world.tools(traffic=(gateway,)))

    assert ran.ending(Step.STOP_TRAFFIC) is Ending.DONE
    assert "connection reset" in ran.ended(Step.STOP_TRAFFIC).note


def test_what_an_actuator_raises_is_its_failure_and_its_trace_is_kept_without_passwords(rig: Rig) -> None:
    gateway = Faulty(WorldTraffic(rig.world.store), stop_new=raises)

    ran = rig.run(rig.world.tools(traffic=(gateway,)))

    assert ran.ending(Step.STOP_TRAFFIC) is Ending.FAILED
    assert "RuntimeError" in ran.ended(Step.STOP_TRAFFIC).note
    traces = [one.data["trace"] for one in ran.events if "trace" in one.data]
    assert any("raise RuntimeError" in one for one in traces)
    assert "geheim" not in str(ran.events)


@pytest.mark.parametrize("value", [None, "done", 1, {"ending": "done"}, Answer(ending="done")])  # type: ignore[arg-type]
def test_garbage_is_no_answer(rig: Rig, value: Any) -> None:
    gateway = Faulty(WorldTraffic(rig.world.store), stop_new=answers(value))

    ran = rig.run(rig.world.tools(traffic=(gateway,)))

    assert ran.ending(Step.STOP_TRAFFIC) is Ending.FAILED
    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(ending=Ending.DONE, note="x" * 5_000_000, data={"huge": "y" * 5_000_000}),
        Answer(ending=Ending.DONE, note="\x1b[31mred\x00\ud800", data={"nan": float("nan")}),
        Answer(ending=Ending.DONE, note="grün", data={"object": object()}),
        Answer(ending=Ending.DONE, data={1: {2: 3}}),  # type: ignore[dict-item]
    ],
)
def test_huge_and_odd_answers_are_cut_to_what_a_journal_keeps(rig: Rig, answer: Answer) -> None:
    def fault(call: Callable[..., Any], *arguments: Any, **named: Any) -> Answer:
        call(*arguments, **named)
        return answer

    gateway = Faulty(WorldTraffic(rig.world.store), stop_new=fault)

    ran = rig.run(rig.world.tools(traffic=(gateway,)))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert max(len(str(one)) for one in ran.events) < 200_000


@pytest.mark.parametrize("look", [raises, answers(None), answers(TrafficLook(state=TrafficState.UNKNOWN))])
def test_a_gateway_that_cannot_be_looked_at_is_taken_at_its_word(rig: Rig, look: Callable[..., Any]) -> None:
    gateway = Faulty(WorldTraffic(rig.world.store), look=look)

    ran = rig.run(rig.world.tools(traffic=(gateway,)))

    assert ran.ending(Step.STOP_TRAFFIC) is Ending.DONE
    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["gateways"]["front"]["state"] == "ready"


def test_a_drain_that_takes_effect_after_traffic_was_given_back_is_put_right(
    rig: Rig, release: threading.Event
) -> None:
    """It hangs until RESTORE was begun and has its effect then: the last look finds it."""
    late = threading.Event()

    def slow(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        late.wait(30)
        return call(*arguments, **named)

    real = WorldTraffic(rig.world.store)
    gateway = Faulty(real, stop_new=slow)

    def told(event: Any) -> None:
        if event.kind is EventKind.STEP_ENDED and event.step is Step.VERIFY:
            late.set()
            time.sleep(0.3)

    ran = rig.run(rig.world.tools(traffic=(gateway,)), told=told)

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["gateways"]["front"]["state"] == "ready"


def test_a_gateway_that_somebody_stops_again_is_told_and_not_fought_for_ever(rig: Rig) -> None:
    class Taken(WorldTraffic):
        """Somebody else stops it as soon as it was seen to be restored."""

        def restore(self, deadline: Any) -> Answer:
            found = super().restore(deadline)
            threading.Timer(0.1, lambda: self._set("by_somebody", state="stopped")).start()
            return found

    ran = rig.run(rig.world.tools(traffic=(Taken(rig.world.store),)), late_patience=0.1)

    assert ran.incident.closed is Outcome.RECOVERED
    assert rig.world.state["order"].count("front:restore") <= 4


# -- evidence


@pytest.mark.parametrize("fault", [fails, lies, raises, answers(None)])
def test_evidence_that_cannot_be_had_never_blocks_recovery(rig: Rig, fault: Callable[..., Any]) -> None:
    tools = rig.world.tools()
    rig.config = IncidentConfig(budget={**QUICK, Step.EVIDENCE: 1.0}, undecided="rebuild")

    ran = rig.run(rig.world.tools(evidence=Faulty(tools.evidence, collect=fault)))

    assert ran.ending(Step.EVIDENCE) in (Ending.FAILED, Ending.TIMED_OUT)
    assert ran.ending(Step.DIAGNOSE) is Ending.SKIPPED
    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()


def test_evidence_that_hangs_ends_at_its_deadline(rig: Rig, release: threading.Event) -> None:
    tools = rig.world.tools()
    rig.config = IncidentConfig(budget={**QUICK, Step.EVIDENCE: 0.8}, undecided="rebuild")

    ran = rig.run(rig.world.tools(evidence=Faulty(tools.evidence, collect=hangs(release))))

    assert ran.ending(Step.EVIDENCE) is Ending.TIMED_OUT
    assert within_its_time(ran, Step.EVIDENCE)
    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 1}', "\x00", '{"class": "nonsense"}'])
def test_a_verdict_that_is_none_decides_nothing(rig: Rig, text: str) -> None:
    tools = rig.world.tools()

    def odd(call: Callable[..., Any], bundle: str, folder: str, deadline: Any) -> Answer:
        found: Answer = call(bundle, folder, deadline)
        Path(str(found.data["verdict"])).write_text(text)
        return found

    rig.config = IncidentConfig(budget={**QUICK, Step.APPROVE: 0.3})
    ran = rig.run(rig.world.tools(evidence=Faulty(tools.evidence, diagnose=odd)))

    assert ran.incident.closed is Outcome.HELD, ran.notes()
    assert rig.world.state["terminated"] == []


# -- the process group


def test_a_group_that_only_says_it_ended_is_not_started_beside(rig: Rig) -> None:
    tools = rig.world.tools()

    ran = rig.run(rig.world.tools(group=Faulty(tools.group, terminate=lies)))

    assert ran.ending(Step.TERMINATE) is Ending.FAILED
    assert ran.incident.closed is Outcome.FAILED
    assert rig.world.state["starts"] == []
    assert rig.world.state["gateways"]["front"]["state"] == "cut"


def test_a_group_that_cannot_be_looked_at_is_not_started_by_guesswork(rig: Rig) -> None:
    """It says done, nobody can see it: a start that may be a second one is the actuator's to refuse."""
    tools = rig.world.tools()
    look = answers(GroupLook(state=GroupState.UNKNOWN, note="no look is configured"))

    ran = rig.run(rig.world.tools(group=Faulty(tools.group, look=look)))

    assert rig.world.state["starts"] == ["inc-2"], ran.notes()


def test_an_end_that_fails_at_first_is_asked_again(rig: Rig) -> None:
    tools = rig.world.tools()

    ran = rig.run(rig.world.tools(group=Faulty(tools.group, terminate=at_first(1, fails))))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["terminated"] == ["inc-1"]


def test_a_start_whose_answer_was_lost_is_not_done_twice(rig: Rig) -> None:
    tools = rig.world.tools()

    ran = rig.run(rig.world.tools(group=Faulty(tools.group, start=says_failed_and_does_it)))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["starts"] == ["inc-2"]


def test_a_start_that_takes_effect_after_its_deadline_is_told(rig: Rig, release: threading.Event) -> None:
    tools = rig.world.tools()
    rig.config = IncidentConfig(budget={**QUICK, Step.START: 0.8})
    group = Faulty(tools.group, start=takes_effect_at(release))

    def told(event: Any) -> None:
        if event.kind is EventKind.STEP_ENDED and event.step is Step.RESTORE:
            release.set()
            time.sleep(0.2)

    ran = rig.run(rig.world.tools(group=group), told=told)

    assert ran.incident.closed is Outcome.FAILED
    assert "runs" in ran.events[-1].note
    assert rig.world.state["starts"] == ["inc-2"]


def test_a_group_that_ends_by_itself_while_it_starts_is_not_waited_for(rig: Rig) -> None:
    tools = rig.world.tools()

    def falls(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        found = call(*arguments, **named)
        rig.world.state["group"].update(state="ended", by_itself=True)
        return found

    ran = rig.run(rig.world.tools(group=Faulty(tools.group, start=falls)))

    assert ran.ending(Step.VERIFY) is Ending.FAILED
    assert "ended by itself before it served" in ran.ended(Step.VERIFY).note
    assert rig.world.state["starts"] == ["inc-2"]
    assert ran.incident.closed is Outcome.FAILED


def test_a_process_that_cannot_be_killed_is_its_nodes_fault(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory()))
    tools = rig.world.tools()
    stuck = answers(Answer(ending=Ending.NODE, note="pid 7 sleeps in a driver", data={"node": "n2", "pids": [7]}))

    ran = rig.run(rig.world.tools(group=Faulty(tools.group, terminate=stuck)))

    assert ran.incident.closed is Outcome.FAILED, ran.notes()
    assert rig.world.state["fenced"] == ["n2"]
    assert rig.world.state["starts"] == []
    assert rig.world.state["gateways"]["front"]["state"] == "cut"


def test_what_never_serves_gets_no_traffic(rig: Rig) -> None:
    tools = rig.world.tools()
    assert tools.group is not None
    tools.group.broken = True  # type: ignore[attr-defined]

    ran = rig.run(tools)

    assert ran.ending(Step.VERIFY) is Ending.TIMED_OUT
    assert within_its_time(ran, Step.VERIFY)
    assert ran.incident.closed is Outcome.FAILED
    assert rig.world.state["gateways"]["front"]["state"] == "cut"


def test_once_the_total_deadline_has_passed_gpus_are_freed_and_what_was_skipped_is_said(rig: Rig) -> None:
    tools = rig.world.tools()
    assert tools.group is not None
    tools.group.broken = True  # type: ignore[attr-defined]
    rig.config = IncidentConfig(budget={**QUICK, Step.VERIFY: 30.0}, total_seconds=4.0)

    ran = rig.run(tools)

    assert ran.incident.closed is Outcome.GAVE_UP, ran.notes()
    assert rig.world.state["terminated"] == ["inc-1", "inc-2"]
    assert rig.world.state["group"]["state"] == "ended"
    assert rig.world.state["gateways"]["front"]["state"] == "cut"
    assert "restore" in ran.events[-1].note


def test_a_probe_that_hangs_or_raises_proves_nothing(rig: Rig, release: threading.Event) -> None:
    for fault in (hangs(release), raises, answers(None)):
        tools = rig.world.tools()
        ran = rig.run(rig.world.tools(probe=Faulty(tools.probe, serves=fault)), seen=rig.world.seen)
        assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
        rig.world.store.state.update(Memory().state)


# -- nodes


@pytest.mark.parametrize("fault", [fails, lies, raises])
def test_a_fence_that_fails_does_not_hold_the_rebuild_up(tmp_path: Path, fault: Callable[..., Any]) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST))
    node = Faulty(rig.world.tools().nodes[0], fence=fault)

    ran = rig.run(rig.world.tools(nodes=(node,)))

    assert ran.ending(Step.FENCE) is Ending.FAILED
    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["group"]["avoid"] == ["n2"]


def test_a_fence_that_nobody_can_see_is_believed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST))
    node = Faulty(rig.world.tools().nodes[0], look=answers(NodeLook(fenced=Fenced.UNKNOWN)))

    ran = rig.run(rig.world.tools(nodes=(node,)))

    assert ran.ending(Step.FENCE) is Ending.DONE
    assert rig.world.state["lifted"] == ["n2"], ran.notes()


def test_a_retest_that_hangs_is_a_failed_one(tmp_path: Path, release: threading.Event) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST))
    retest = Faulty(rig.world.tools().retest, test=hangs(release))

    ran = rig.run(rig.world.tools(retest=retest))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["fences"]["n2"]["incident"] == ran.incident.id
    assert "quarantined" in ran.notes()


@pytest.mark.parametrize("ending", [RetestEnding.PROVISIONAL, RetestEnding.ERROR])
def test_a_node_that_neither_passed_nor_failed_has_had_its_test(tmp_path: Path, ending: RetestEnding) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST))

    rig.run(rig.world.tools(retest=WorldRetest(rig.world.store, {"n2": ending})))

    assert rig.world.state["order"].count("retest:n2") == 1
    assert rig.world.state["lifted"] == []


@pytest.mark.parametrize("value", [None, (), ("pass",), "n2 passed"])
def test_a_retest_that_says_nothing_lets_nobody_in(tmp_path: Path, value: Any) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST))
    retest = Faulty(rig.world.tools().retest, test=answers(value))

    ran = rig.run(rig.world.tools(retest=retest))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["lifted"] == []


# -- the watch


def test_a_watch_that_raises_is_a_watch_that_says_nothing(rig: Rig) -> None:
    def broken() -> None:
        raise OSError("stale file handle")

    assert rig.run(seen=broken).incident.closed is Outcome.RECOVERED


def test_a_drain_ends_as_soon_as_the_watch_says_stopped(rig: Rig) -> None:
    rig.config = IncidentConfig(budget={**QUICK, Step.DRAIN: 60.0}, total_seconds=200.0)
    begun = opening(OpenedBy.OPERATOR, Progress.ADVANCING)
    drains = threading.Event()

    def told(event: Any) -> None:
        if event.kind is EventKind.STEP_BEGUN and event.step is Step.DRAIN:
            drains.set()

    ran = rig.run(opening=begun, seen=lambda: rig.world.seen() if drains.is_set() else None, told=told)

    assert within_its_time(ran, Step.DRAIN, slack=-50.0)
    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
