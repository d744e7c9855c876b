"""Whole runs in a small truthful world: what is done, in which order, and what is not."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from incident_world import ALL, GPU_LOST, STALL, Memory, World, opening, verdict
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.runner import Refused
from rankmuster.incident.seen import Seen
from rankmuster.incident.tools import Tools
from rankmuster.model.fault import Confidence, FaultClass, Progress
from rankmuster.model.incident import Ending, Event, EventKind, OpenedBy, Outcome, RetestEnding, Step
from rankmuster.store.journal import Journal
from run_incident import QUICK, Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_stopped_group_is_rebuilt_whole_and_serves_again(rig: Rig) -> None:
    ran = rig.run()

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    state = rig.world.state
    assert state["terminated"] == ["inc-1"]
    assert state["starts"] == ["inc-2"]
    assert state["gateways"]["front"]["state"] == "ready"
    assert state["fenced"] == []
    order = state["order"]
    assert order.index("evidence") < order.index("terminate:inc-1") < order.index("start:inc-2")
    assert order[-1] == "front:restore"


def test_every_action_has_its_intent_on_disk_before_and_its_result_after(rig: Rig) -> None:
    ran = rig.run()

    for event in ran.events:
        if event.kind is EventKind.RESULT:
            intent = next(
                one
                for one in ran.events
                if one.kind is EventKind.INTENT and (one.step, one.action) == (event.step, event.action)
            )
            assert intent.sequence < event.sequence
            assert intent.data["operation"].startswith(f"{ran.incident.id}/{event.step.value if event.step else ''}")
    assert ran.place(EventKind.STEP_ENDED, Step.EVIDENCE) < ran.place(EventKind.STEP_BEGUN, Step.TERMINATE)
    assert next(one for one in ran.events if one.kind is EventKind.CLOSED) is ran.events[-1]


def test_nothing_drains_from_a_group_that_has_stopped_and_its_requests_are_cut(rig: Rig) -> None:
    ran = rig.run()

    assert ran.ending(Step.DRAIN) is Ending.SKIPPED
    assert ran.ended(Step.CUT).data["requests"] == 3


def test_a_node_that_is_lost_is_fenced_and_the_group_started_elsewhere_and_let_in_again_once_it_passes(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST))

    ran = rig.run()

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    state = rig.world.state
    assert state["group"]["avoid"] == ["n2"]
    assert state["group"]["hosts"] == ["n1", "n3"]
    assert state["fenced"] == ["n2"]
    assert state["lifted"] == ["n2"]
    order = state["order"]
    assert order.index("fence:n2") < order.index("terminate:inc-1")
    assert order.index("front:restore") < order.index("retest:n2") < order.index("lift:n2")
    with rig.journal() as journal:
        assert all(one.ended_at is not None for one in journal.uses(ran.incident.id))


def test_a_group_that_says_where_its_pods_are_has_their_nodes_fenced(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST))
    with rig.world.store.edit() as world:
        world["group"]["nodes"] = {"n1": "node-a", "n2": "node-b"}

    ran = rig.run()

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["fenced"] == ["node-b"]
    assert rig.world.state["group"]["avoid"] == ["node-b"]


@pytest.mark.parametrize("ending", [RetestEnding.FAIL, RetestEnding.PROVISIONAL, RetestEnding.ERROR])
def test_a_node_that_does_not_pass_stays_out(tmp_path: Path, ending: RetestEnding) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST, results={"n2": ending}))

    ran = rig.run()

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["fences"]["n2"]["incident"] == ran.incident.id
    assert rig.world.state["lifted"] == []
    assert ("quarantined" if ending is RetestEnding.FAIL else "still fenced") in ran.notes()


def test_a_node_that_others_have_fenced_is_never_let_in(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST))
    rig.world.state["fences"]["n2"] = {"incident": None, "reason": "broken fan"}

    ran = rig.run()

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["fences"]["n2"]["reason"] == "broken fan"
    assert rig.world.state["lifted"] == []


def test_where_it_cannot_be_started_elsewhere_suspects_are_tested_shortly_between(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), found=STALL))

    ran = rig.run()

    order = rig.world.state["order"]
    assert order.index("terminate:inc-1") < order.index("short_retest:n2") < order.index("start:inc-2")
    assert rig.world.state["fenced"] == []
    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()


def test_a_suspect_that_fails_its_short_test_is_quarantined(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), found=STALL, results={"n2": RetestEnding.FAIL}))

    ran = rig.run()

    assert rig.world.state["fences"]["n2"]["incident"] == ran.incident.id
    assert "quarantined" in ran.notes()


def test_a_host_that_a_stall_suspected_before_is_fenced_the_second_time(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=STALL))
    rig.run()
    rig.world.state["group"].update(hosts=["n1", "n2"])

    again = rig.run(opening=opening(incarnation="inc-2"))

    assert rig.world.state["fenced"] == ["n2"], again.notes()


def test_by_default_nothing_is_touched_and_all_that_would_be_done_is_said(rig: Rig) -> None:
    ran = rig.run(rig.world.tools(enabled=frozenset()))

    assert ran.incident.closed is Outcome.OBSERVED, ran.notes()
    assert [one for one in rig.world.state["order"] if one != "evidence"] == []
    said = [line for one in ran.events if one.kind is EventKind.RESULT for line in one.data.get("would", ())]
    assert said == ["front: stop_new", "front: cut", "group: terminate inc-1", "group: start inc-1", "front: restore"]


def test_what_follows_from_something_that_was_only_said_is_only_said(rig: Rig) -> None:
    """Traffic was really stopped, and nothing was rebuilt: given back it would run into the wall."""
    ran = rig.run(rig.world.tools(enabled=frozenset({"traffic"})))

    assert ran.incident.closed is Outcome.OBSERVED, ran.notes()
    assert rig.world.state["starts"] == []
    assert rig.world.state["gateways"]["front"]["state"] == "cut"
    assert "traffic stays stopped" in ran.events[-1].note


def test_a_slow_group_is_given_less_and_gets_all_again_once_it_recovers(rig: Rig) -> None:
    rig.world.found = verdict(FaultClass.INCONCLUSIVE, None, confidence=None, progress=Progress.SLOW)
    lowered = threading.Event()

    def seen() -> Seen:
        if rig.world.state["gateways"]["front"]["percent"] == 30.0 and lowered.is_set():
            return Seen(Progress.ADVANCING, "inc-1", time.time())
        return Seen(Progress.SLOW, "inc-1", time.time())

    def told(event: Event) -> None:
        if event.kind is EventKind.STEP_BEGUN and event.step is Step.RECOVER:
            lowered.set()

    ran = rig.run(opening=opening(OpenedBy.SLOW, Progress.SLOW), seen=seen, told=told)

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["gateways"]["front"] == {"state": "ready", "percent": 100.0, "running": 3}
    assert rig.world.state["terminated"] == []


def test_a_slow_group_that_does_not_recover_keeps_its_lowered_weight(rig: Rig) -> None:
    rig.world.found = verdict(FaultClass.INCONCLUSIVE, None, confidence=None, progress=Progress.SLOW)
    rig.config = replace(rig.config, budget={**QUICK, Step.RECOVER: 0.5})

    ran = rig.run(opening=opening(OpenedBy.SLOW, Progress.SLOW), seen=lambda: Seen(Progress.SLOW, "inc-1", time.time()))

    assert ran.incident.closed is Outcome.FAILED
    assert rig.world.state["gateways"]["front"]["percent"] == 30.0
    assert "stays lowered" in ran.events[-1].note


UNSURE = verdict(FaultClass.INCONCLUSIVE, None, confidence=None)


def approves(journal: Journal, name: str, boundary: str) -> None:
    """An operator who approves as soon as that is waited for."""

    def wait() -> None:
        for _ in range(200):
            begun = [one for one in journal.events(name) if one.kind is EventKind.STEP_BEGUN]
            if any(one.step is Step.APPROVE for one in begun):
                journal.tell(
                    name,
                    Event(kind=EventKind.APPROVED, at=time.time(), by="ada", data={"boundary": boundary}),
                )
                return
            time.sleep(0.05)

    threading.Thread(target=wait, daemon=True).start()


def test_what_is_undecided_waits_for_an_operator_who_names_the_boundary(rig: Rig) -> None:
    rig.world.found = UNSURE

    ran = rig.run(beside=lambda journal, name: approves(journal, name, "process_group"))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["starts"] == ["inc-2"]


def test_without_an_operator_nothing_is_killed(rig: Rig) -> None:
    rig.world.found = UNSURE
    rig.config = replace(rig.config, budget={**QUICK, Step.APPROVE: 0.4})

    ran = rig.run()

    assert ran.incident.closed is Outcome.HELD
    assert rig.world.state["terminated"] == []
    assert "traffic stays stopped" in ran.events[-1].note


def test_a_runner_that_waits_for_nobody_comes_back_and_another_one_goes_on(rig: Rig) -> None:
    rig.world.found = UNSURE
    with rig.journal() as journal:
        first = rig.runner(journal)
        name = first.open(opening())
        waiting = first.run(name, wait_for_people=False)
        assert waiting.closed is None
        assert [one.step for one in waiting.running] == [Step.APPROVE]

        journal.tell(name, Event(kind=EventKind.APPROVED, at=time.time(), by="ada", data={"boundary": "process_group"}))
        ended = rig.runner(journal, holder="b").run(name)

    assert ended.closed is Outcome.RECOVERED
    assert rig.world.state["starts"] == ["inc-2"]


def test_what_wants_an_approval_waits_for_it(rig: Rig) -> None:
    rig.config = replace(rig.config, approve=(Step.TERMINATE,), budget={**QUICK, Step.APPROVE: 0.4})

    ran = rig.run()

    assert ran.incident.closed is Outcome.HELD
    assert rig.world.state["terminated"] == []


def test_an_operator_ends_it_and_traffic_comes_back_to_a_group_that_was_not_touched(rig: Rig) -> None:
    """Opened by an operator, of a group that serves: nothing says that it has stopped."""
    begun = opening(OpenedBy.OPERATOR, Progress.ADVANCING)

    def abort(journal: Journal, name: str) -> None:
        def wait() -> None:
            for _ in range(200):
                if any(one.step is Step.DRAIN and one.kind is EventKind.STEP_BEGUN for one in journal.events(name)):
                    journal.tell(name, Event(kind=EventKind.ABORTED, at=time.time(), by="ada", note="wrong one"))
                    return
                time.sleep(0.02)

        threading.Thread(target=wait, daemon=True).start()

    rig.config = replace(rig.config, approve=(Step.TERMINATE,))
    ran = rig.run(opening=begun, beside=abort)

    assert ran.incident.closed is Outcome.ABORTED
    assert rig.world.state["gateways"]["front"]["state"] == "ready"
    assert rig.world.state["terminated"] == []


def test_limits_hold_a_rebuild_back(rig: Rig) -> None:
    rig.config = replace(rig.config, limits=replace(rig.config.limits, rebuilds_per_instance=1))
    rig.run()
    with rig.journal() as journal:
        runner = rig.runner(journal)
        waiting = runner.run(runner.open(opening(incarnation="inc-2")), wait_for_people=False)

    assert waiting.closed is None
    assert waiting.decision is not None
    assert "rebuilt 1 times" in str(waiting.decision.held)
    assert rig.world.state["terminated"] == ["inc-1"]


def test_an_operator_stands_above_the_limits(rig: Rig) -> None:
    rig.config = replace(rig.config, limits=replace(rig.config.limits, rebuilds_per_instance=1))
    rig.run()

    again = rig.run(
        opening=opening(incarnation="inc-2"), beside=lambda journal, name: approves(journal, name, "process_group")
    )

    assert again.incident.closed is Outcome.RECOVERED, again.notes()
    assert rig.world.state["terminated"] == ["inc-1", "inc-2"]


def test_an_incarnation_that_is_gone_opens_nothing(rig: Rig) -> None:
    rig.world.state["group"]["number"] = 2
    with rig.journal() as journal, pytest.raises(Refused, match="inc-2 runs now"):
        rig.runner(journal).open(opening())


def test_an_incarnation_that_went_between_opening_and_run_is_not_touched(rig: Rig) -> None:
    def restarted(journal: Journal, name: str) -> None:
        rig.world.state["group"]["number"] = 2

    ran = rig.run(beside=restarted)

    assert ran.incident.closed is Outcome.RESTORED
    assert rig.world.state["order"] == []


def test_one_that_somebody_starts_meanwhile_is_not_ended_but_asked_whether_it_serves(rig: Rig) -> None:
    def told(event: Event) -> None:
        if event.kind is EventKind.STEP_ENDED and event.step is Step.STOP_TRAFFIC:
            with rig.world.store.edit() as world:
                world["group"].update(number=2, state="running")
                world["works"] = True

    ran = rig.run(told=told)

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["terminated"] == []
    assert rig.world.state["starts"] == []
    assert rig.world.state["gateways"]["front"]["state"] == "ready"


def test_one_incarnation_gets_the_incident_logging_profile_and_only_where_that_is_wanted(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.run()
    assert rig.world.state["group"]["suspect"] == "missing_enter"

    rig.config = IncidentConfig(budget=QUICK, incident_profile=False)
    rig.run(opening=opening(incarnation="inc-2"))
    assert rig.world.state["group"]["suspect"] is None


def test_a_group_that_ended_by_itself_is_started_again(rig: Rig) -> None:
    rig.world.state["group"].update(state="ended", by_itself=True)
    rig.world.found = UNSURE

    ran = rig.run(opening=opening(OpenedBy.ENDED))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["starts"] == ["inc-2"]


def test_the_watch_alone_is_proof_that_the_new_one_serves(rig: Rig) -> None:
    ran = rig.run(rig.world.tools(probe=None), seen=rig.world.seen)

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert "the watch sees incarnation inc-2 advancing" in ran.ended(Step.VERIFY).note


def test_that_processes_run_is_no_proof(rig: Rig) -> None:
    ran = rig.run(rig.world.tools(probe=None))

    assert ran.incident.closed is Outcome.FAILED
    assert "configure `probe`" in ran.ended(Step.VERIFY).note
    assert rig.world.state["gateways"]["front"]["state"] == "cut"


def test_a_group_that_nobody_can_rebuild_is_left_to_people(rig: Rig) -> None:
    ran = rig.run(rig.world.tools(group=None))

    assert ran.incident.closed is Outcome.OBSERVED, ran.notes()
    assert "by hand" in ran.ended(Step.TERMINATE).note
    assert rig.world.state["gateways"]["front"]["state"] == "cut"


def test_without_any_actuator_it_still_saves_evidence_and_says_what_it_found(rig: Rig) -> None:
    ran = rig.run(Tools(evidence=rig.world.tools().evidence))

    assert ran.ending(Step.EVIDENCE) is Ending.DONE
    assert ran.incident.decision is not None
    assert ran.incident.decision.confidence is Confidence.CONFIRMED


def test_evidence_that_was_taken_before_is_used(rig: Rig, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()

    ran = rig.run(opening=opening(bundle=str(bundle)))

    assert rig.world.state["evidence"] == []
    assert ran.ended(Step.EVIDENCE).data["bundle"] == str(bundle)


def test_what_is_missing_or_has_no_time_is_refused_before_anything(rig: Rig) -> None:
    rig.config = IncidentConfig(enable=("llm-0/group",))
    with rig.journal() as journal:
        with pytest.raises(Refused, match="no such actuator is configured"):
            rig.runner(journal, rig.world.tools(group=None, enabled=ALL))
        rig.config = IncidentConfig(budget={Step.DRAIN: 0.0})
        with pytest.raises(Refused, match="drain 0 s"):
            rig.runner(journal)


def test_a_dry_run_says_the_same_every_time_and_touches_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True))
    with rig.journal() as journal:
        runner = rig.runner(journal, rig.world.tools(enabled=frozenset({"traffic", "group"})))
        begun = opening(at=100.0, since=90.0)
        said = runner.dry_run(begun, GPU_LOST)

        assert runner.dry_run(begun, GPU_LOST) == said
        assert journal.incidents() == ()
    assert rig.world.state["order"] == []
    text = "\n".join(said)
    assert "group: terminate inc-1" in text
    assert "group: start inc-1, not on n2" in text
    assert "scheduler: fence n2 (llm-0: gpu_lost) (not enabled" in text
    assert "drain: at most 1.5 s" in text


def test_a_dry_run_of_what_is_held_says_what_an_approval_leads_to(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory()))
    with rig.journal() as journal:
        said = rig.runner(journal).dry_run(opening(at=100.0, since=90.0))

    place = said.index("and once an operator approves process_group:")
    assert any(line.startswith("approve:") for line in said[:place])
    assert not any("terminate" in line for line in said[:place])
    assert any("group: terminate inc-1" in line for line in said[place:])
    assert any(line.startswith("restore:") for line in said[place:])
