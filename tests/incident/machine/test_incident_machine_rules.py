"""Each rule of the runbook, on an example."""

from __future__ import annotations

import pytest

from machine_driver import START, Driver, decision, opening
from rankmuster.incident.budget import Budget
from rankmuster.incident.machine.due import (
    Abandon,
    Begin,
    Close,
    Finish,
    PassDeadline,
    Skip,
    total_deadline_at,
    wake_at,
)
from rankmuster.incident.machine.fold import IllegalTransition, fold
from rankmuster.incident.machine.parts import DECIDE_TURNS
from rankmuster.incident.machine.plan import plan_after
from rankmuster.model.fault import Boundary, Progress
from rankmuster.model.incident import Course, Ending, Event, EventKind, OpenedBy, Outcome, Step

ORPHAN = {"step": "start", "after": ["terminate"], "seconds": 1}
SLOW = opening(OpenedBy.SLOW, Progress.SLOW)
FENCED = decision(boundary=Boundary.NODE, fence=("node-1",), retest=("node-1",), elsewhere=True)


def test_a_stopped_group_is_looked_at_ended_and_started_whole() -> None:
    driver = Driver().run()
    assert driver.order() == [
        Step.STOP_TRAFFIC,
        Step.EVIDENCE,
        Step.DIAGNOSE,
        Step.DECIDE,
        Step.CUT,
        Step.TERMINATE,
        Step.START,
        Step.VERIFY,
        Step.RESTORE,
    ]
    assert driver.incident.closed is Outcome.RECOVERED
    assert driver.incident.incarnation != "first"
    assert driver.due() == ()


def test_evidence_waits_for_no_gateway_and_the_drain_of_what_stands_still_is_left_out() -> None:
    driver = Driver()
    driver.plan()
    asked = driver.due()
    assert [one.step for one in asked if isinstance(one, Begin)] == [Step.STOP_TRAFFIC, Step.EVIDENCE]
    assert [one.step for one in asked if isinstance(one, Skip)] == [Step.DRAIN]


def test_a_drain_ends_at_once_when_it_is_seen_to_have_stopped() -> None:
    driver = Driver(opening(progress=Progress.UNKNOWN), endings={Step.DRAIN: None, Step.EVIDENCE: None}).run()
    assert driver.due() == ()
    driver.see(Progress.STOPPED)
    (one,) = driver.due()
    assert isinstance(one, Abandon)
    assert (one.step, one.ending) == (Step.DRAIN, Ending.SKIPPED)
    assert "stopped" in one.why


def test_the_group_is_ended_after_evidence_and_the_drain_or_their_deadlines() -> None:
    driver = Driver(opening(progress=Progress.UNKNOWN), endings={Step.DRAIN: None}).run()
    assert Step.TERMINATE not in driver.order()
    assert wake_at(driver.incident, driver.now) == START + driver.budget.of(Step.DRAIN)
    driver.wait(driver.budget.of(Step.DRAIN))
    assert driver.ending(Step.DRAIN) is Ending.TIMED_OUT
    assert driver.incident.closed is Outcome.RECOVERED


def test_evidence_that_hangs_does_not_block_recovery() -> None:
    driver = Driver(endings={Step.EVIDENCE: None}).run()
    assert Step.DIAGNOSE not in driver.order()
    driver.wait(driver.budget.of(Step.EVIDENCE))
    assert driver.ending(Step.EVIDENCE) is Ending.TIMED_OUT
    assert driver.incident.closed is Outcome.RECOVERED


@pytest.mark.parametrize("step", [Step.STOP_TRAFFIC, Step.EVIDENCE, Step.DIAGNOSE, Step.FENCE, Step.CUT])
@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.TIMED_OUT, Ending.PARTIAL, Ending.UNKNOWN])
def test_what_is_not_needed_may_fail(step: Step, ending: Ending) -> None:
    driver = Driver(decisions=[FENCED], endings={step: ending}, elsewhere=True).run()
    assert driver.ending(step) is ending
    assert driver.incident.closed is Outcome.RECOVERED


@pytest.mark.parametrize("step", [Step.TERMINATE, Step.START, Step.VERIFY, Step.RESTORE])
@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.TIMED_OUT, Ending.PARTIAL, Ending.UNKNOWN, Ending.REFUSED])
def test_after_a_needed_step_that_failed_nothing_goes_on(step: Step, ending: Ending) -> None:
    driver = Driver(decisions=[FENCED], endings={step: ending}, elsewhere=True).run()
    assert driver.incident.closed is Outcome.FAILED
    assert driver.order()[-1] is step
    note = driver.events[-1].note
    assert f"{step.value} ended {ending.value}" in note
    assert "traffic stays stopped" in note


def test_a_fenced_suspect_is_tested_while_it_is_idle() -> None:
    driver = Driver(decisions=[FENCED], elsewhere=True).run()
    assert driver.order()[4:] == [
        Step.FENCE,
        Step.CUT,
        Step.TERMINATE,
        Step.START,
        Step.VERIFY,
        Step.RESTORE,
        Step.RETEST,
        Step.SETTLE,
    ]
    assert driver.incident.avoid == ("node-1",)


def test_a_suspect_that_cannot_be_left_is_tested_before_the_start() -> None:
    driver = Driver(decisions=[FENCED], elsewhere=False).run()
    order = driver.order()
    assert order[order.index(Step.TERMINATE) :] == [
        Step.TERMINATE,
        Step.SHORT_RETEST,
        Step.START,
        Step.VERIFY,
        Step.RESTORE,
        Step.SETTLE,
    ]


def test_no_plan_starts_a_group_without_ending_the_old_one() -> None:
    for course in Course:
        for fence in ((), ("node-1",)):
            driver = Driver(decisions=[decision(course, fence=fence, retest=fence)]).run()
            plan = plan_after(driver.decisions[0], driver.incident, driver.budget)
            steps = {one.step: one for one in plan}
            if Step.START in steps:
                assert Step.TERMINATE in steps[Step.START].after


# -- slow


def test_a_slow_group_is_given_less_until_it_recovers() -> None:
    driver = Driver(SLOW, decisions=[decision(Course.SHED)]).run()
    assert driver.order() == [Step.SHED, Step.EVIDENCE, Step.DIAGNOSE, Step.DECIDE, Step.RECOVER]
    driver.see(Progress.ADVANCING)
    (one,) = driver.due()
    assert isinstance(one, Finish)
    assert one.ending is Ending.DONE
    driver.run()
    assert driver.order()[-1] is Step.RESTORE
    assert driver.incident.closed is Outcome.RECOVERED


def test_a_slow_group_that_does_not_recover_keeps_its_lowered_weight() -> None:
    driver = Driver(SLOW, decisions=[decision(Course.SHED)]).run()
    driver.wait(driver.budget.of(Step.RECOVER))
    assert driver.incident.closed is Outcome.FAILED
    assert Step.RESTORE not in driver.order()
    assert "its weight at the gateway stays lowered" in driver.events[-1].note


def test_a_slow_group_that_stops_makes_way_for_another_incident() -> None:
    driver = Driver(SLOW, decisions=[decision(Course.SHED, progress=Progress.SLOW)]).run()
    driver.see(Progress.STOPPED)
    driver.run()
    assert driver.incident.closed is Outcome.FAILED
    assert "recover" in driver.events[-1].note


def test_a_slow_group_is_rebuilt_after_an_approval_alone() -> None:
    driver = Driver(SLOW, decisions=[FENCED], elsewhere=True).run()
    assert driver.order()[-1] is Step.APPROVE
    driver.tell(EventKind.APPROVED)
    driver.run()
    order = driver.order()
    assert order[5:8] == [Step.STOP_TRAFFIC, Step.FENCE, Step.DRAIN] or order[5:8] == [
        Step.STOP_TRAFFIC,
        Step.DRAIN,
        Step.FENCE,
    ]
    assert driver.incident.closed is Outcome.RECOVERED


# -- people


def test_the_total_clock_stands_still_while_people_are_waited_for() -> None:
    driver = Driver(approve=[Step.TERMINATE], budget=Budget(total_seconds=60)).run()
    assert driver.order()[-1] is Step.APPROVE
    assert total_deadline_at(driver.incident) is None
    driver.now += 500
    assert driver.due() == ()
    driver.tell(EventKind.APPROVED)
    (one,) = driver.due()
    assert isinstance(one, Finish)
    driver.do(one)
    assert total_deadline_at(driver.incident) == START + 60 + 500
    driver.run()
    assert driver.incident.closed is Outcome.RECOVERED


def test_what_nobody_approves_is_held_and_touches_nothing() -> None:
    driver = Driver(approve=[Step.FENCE, Step.START], decisions=[FENCED], elsewhere=True).run()
    driver.wait(driver.budget.of(Step.APPROVE))
    assert driver.incident.closed is Outcome.HELD
    assert not driver.incident.group_touched
    assert "nobody approved in time" in driver.events[-1].note


def test_a_held_decision_is_made_again_with_what_was_approved() -> None:
    held = decision(Course.HOLD, boundary=Boundary.CLUSTER, held="all at once")
    driver = Driver(decisions=[held, decision()]).run()
    assert driver.order()[-1] is Step.APPROVE
    assert driver.incident.approved_boundary is None
    driver.tell(EventKind.APPROVED, boundary="process_group")
    assert driver.incident.approved_boundary is Boundary.PROCESS_GROUP
    driver.run()
    assert driver.order().count(Step.DECIDE) == 2
    assert driver.incident.closed is Outcome.RECOVERED


def test_what_waits_for_limits_waits_for_hours_and_goes_on_by_itself() -> None:
    held = decision(Course.HOLD, held="4 are rebuilt now", waits_for_limits=True)
    driver = Driver(decisions=[held, decision()]).run()
    driver.wait(3 * 3600.0)
    assert driver.incident.closed is None
    driver.tell(EventKind.APPROVED, by_limits=True)
    assert driver.incident.approved_boundary is None
    driver.run()
    assert driver.incident.closed is Outcome.RECOVERED


def test_one_that_moves_again_gets_its_traffic_back_and_nobody_has_to_approve() -> None:
    driver = Driver(decisions=[decision(Course.HOLD, held="why")]).run()
    driver.see(Progress.ADVANCING)
    driver.run()
    assert driver.order()[-1] is Step.RESTORE
    assert driver.incident.closed is Outcome.RESTORED
    assert not driver.incident.traffic_touched


def test_an_approval_that_nobody_waits_for_changes_nothing() -> None:
    driver = Driver().run(until=lambda one: Step.EVIDENCE in [state.step for state in one.running])
    driver.tell(EventKind.APPROVED, boundary="node")
    assert driver.incident.approval is None
    driver.run()
    driver.tell(EventKind.ABORTED)
    assert driver.incident.closed is Outcome.RECOVERED


# -- abort


def test_an_abort_ends_what_runs_and_gives_traffic_back_to_what_moves() -> None:
    driver = Driver(opening(progress=Progress.UNKNOWN), endings={Step.DRAIN: None, Step.EVIDENCE: None}).run()
    driver.tell(EventKind.ABORTED)
    asked = driver.due()
    assert {one.step for one in asked if isinstance(one, Abandon)} == {Step.EVIDENCE, Step.DRAIN}
    driver.run()
    assert driver.order()[-1] is Step.RESTORE
    assert driver.incident.closed is Outcome.ABORTED


def test_an_abort_leaves_traffic_stopped_where_it_stands_still() -> None:
    driver = Driver(endings={Step.EVIDENCE: None}).run()
    driver.tell(EventKind.ABORTED)
    driver.run()
    assert Step.RESTORE not in driver.order()
    assert "traffic stays stopped" in driver.events[-1].note


def test_an_abort_after_the_group_was_touched_says_what_is_left() -> None:
    driver = Driver(endings={Step.START: None}).run()
    driver.see(Progress.UNKNOWN)
    driver.tell(EventKind.ABORTED)
    driver.run()
    assert driver.incident.closed is Outcome.ABORTED
    assert Step.RESTORE not in driver.order()
    assert "traffic stays stopped" in driver.events[-1].note


# -- the total deadline


def test_at_the_total_deadline_the_gpus_are_freed_first() -> None:
    driver = Driver(
        decisions=[FENCED], budget=Budget(total_seconds=2), elsewhere=True, endings={Step.FENCE: None}
    ).run()
    assert driver.order()[-1] is Step.FENCE
    driver.now += 2
    (one,) = driver.due()
    assert isinstance(one, PassDeadline)
    driver.run()
    assert driver.order()[-2:] == [Step.CUT, Step.TERMINATE]
    assert driver.incident.closed is Outcome.GAVE_UP
    note = driver.events[-1].note
    for left in ("start", "verify", "restore", "traffic stays stopped", "its GPUs are free"):
        assert left in note


def test_an_end_that_runs_at_the_total_deadline_has_its_own_seconds() -> None:
    driver = Driver(budget=Budget(total_seconds=5), endings={Step.TERMINATE: None}).run()
    driver.wait(6)
    assert driver.incident.step(Step.TERMINATE).running
    driver.end(Step.TERMINATE, Ending.DONE)
    driver.run()
    assert driver.incident.closed is Outcome.GAVE_UP
    assert Step.START not in driver.order()


@pytest.mark.parametrize(
    ("free", "progress", "freed"),
    [
        (True, Progress.STOPPED, True),
        (False, Progress.STOPPED, False),
        (True, Progress.UNKNOWN, False),
    ],
)
def test_what_was_not_decided_is_killed_only_where_that_is_wanted_and_it_stands_still(free, progress, freed) -> None:
    driver = Driver(
        opening(progress=progress), budget=Budget(total_seconds=5), endings={Step.EVIDENCE: None}, free_undecided=free
    ).run()
    driver.wait(6)
    assert (Step.TERMINATE in driver.order()) is freed
    assert driver.incident.closed is Outcome.GAVE_UP


def test_what_was_started_and_does_not_serve_is_ended_too() -> None:
    driver = Driver(budget=Budget(total_seconds=30), endings={Step.VERIFY: None}).run()
    driver.wait(31)
    assert driver.order()[-2:] == [Step.VERIFY, Step.TERMINATE]
    assert driver.order().count(Step.TERMINATE) == 2
    assert driver.incident.group_ended
    assert driver.incident.closed is Outcome.GAVE_UP


def test_a_group_that_serves_is_not_given_up_in_its_last_seconds() -> None:
    driver = Driver(budget=Budget(total_seconds=30), endings={Step.RESTORE: None}).run()
    driver.now += 31
    assert total_deadline_at(driver.incident) is None
    assert all(not isinstance(one, PassDeadline) for one in driver.due())


def test_nobody_is_killed_at_the_deadline_without_the_approval_that_is_wanted() -> None:
    driver = Driver(approve=[Step.TERMINATE], budget=Budget(total_seconds=5), endings={Step.CUT: None}).run()
    driver.wait(3)
    driver.wait(4)
    if driver.incident.closed is None:
        driver.wait(driver.budget.of(Step.APPROVE))
    assert Step.TERMINATE not in driver.order()


# -- nodes that cannot free a GPU


def test_a_node_that_cannot_free_its_gpu_is_fenced_and_the_group_goes_elsewhere() -> None:
    driver = Driver(endings={Step.TERMINATE: Ending.NODE}, elsewhere=True).run()
    order = driver.order()
    assert order[order.index(Step.TERMINATE) :][:3] == [Step.TERMINATE, Step.FENCE, Step.START]
    assert driver.incident.to_fence == ("node-9",)
    assert driver.incident.avoid == ("node-9",)
    assert driver.incident.closed is Outcome.RECOVERED


def test_a_node_that_cannot_free_its_gpu_is_fenced_before_it_is_closed() -> None:
    driver = Driver(endings={Step.TERMINATE: Ending.NODE}, decisions=[FENCED]).run()
    assert driver.order()[-1] is Step.FENCE
    assert driver.order().count(Step.FENCE) == 2
    assert driver.incident.to_fence == ("node-1", "node-9")
    assert driver.incident.closed is Outcome.FAILED
    assert "node-9" in driver.events[-1].note


# -- resume


def test_a_resume_of_what_was_not_touched_looks_anew() -> None:
    driver = Driver(decisions=[decision(Course.HOLD, held="why"), decision()]).run()
    driver.wait(driver.budget.of(Step.APPROVE))
    driver.tell(EventKind.REOPENED)
    assert driver.incident.needs_plan
    driver.run()
    assert driver.order().count(Step.EVIDENCE) == 2
    assert driver.incident.closed is Outcome.RECOVERED


def test_a_resume_starts_what_was_ended() -> None:
    driver = Driver(endings={Step.START: Ending.FAILED}).run()
    driver.endings = {}
    driver.tell(EventKind.REOPENED)
    done = len(driver.order())
    driver.run()
    assert driver.order()[done:] == [
        Step.STOP_TRAFFIC,
        Step.CUT,
        Step.TERMINATE,
        Step.START,
        Step.VERIFY,
        Step.RESTORE,
    ]
    assert driver.incident.closed is Outcome.RECOVERED


def test_a_resume_of_what_serves_by_now_ends_nothing() -> None:
    driver = Driver(endings={Step.VERIFY: Ending.TIMED_OUT}).run()
    driver.endings = {}
    driver.tell(EventKind.REOPENED)
    driver.see(Progress.ADVANCING)
    done = len(driver.order())
    driver.run()
    assert driver.order()[done:] == [Step.VERIFY, Step.RESTORE]
    assert driver.incident.closed is Outcome.RECOVERED


def test_what_has_recovered_is_not_resumed() -> None:
    driver = Driver().run()
    driver.tell(EventKind.REOPENED)
    assert driver.incident.closed is Outcome.RECOVERED


# -- observing


def test_where_nothing_is_enabled_it_is_only_said_what_would_be_done() -> None:
    driver = Driver(decisions=[FENCED], observed=True, elsewhere=True).run()
    assert Step.SETTLE in driver.order()
    assert not driver.incident.acted
    assert driver.incident.closed is Outcome.OBSERVED


def test_traffic_that_was_stopped_beside_a_group_that_is_not_enabled_is_told() -> None:
    endings = dict.fromkeys((Step.TERMINATE, Step.START, Step.VERIFY, Step.RESTORE), Ending.OBSERVED)
    driver = Driver(endings=endings).run()
    assert driver.incident.closed is Outcome.OBSERVED
    assert "traffic stays stopped" in driver.events[-1].note


def test_what_goes_on_by_itself_gets_its_traffic_back() -> None:
    driver = Driver(
        opening(progress=Progress.UNKNOWN), decisions=[decision(Course.RESTORE)], endings={Step.DRAIN: None}
    )
    driver.run()
    assert driver.ending(Step.DRAIN) is Ending.SKIPPED
    assert driver.order()[-1] is Step.RESTORE
    assert driver.incident.closed is Outcome.RESTORED


def test_a_single_request_is_ended_and_the_instance_stays() -> None:
    driver = Driver(decisions=[decision(Course.CUT)]).run()
    assert driver.order()[4:] == [Step.CUT, Step.VERIFY, Step.RESTORE]
    assert not driver.incident.group_touched
    assert driver.incident.closed is Outcome.RECOVERED


def test_an_instance_that_stops_again_ends_the_retest() -> None:
    driver = Driver(decisions=[FENCED], elsewhere=True, endings={Step.RETEST: None}).run()
    assert driver.incident.step(Step.RETEST).running
    driver.see(Progress.STOPPED)
    driver.run()
    assert driver.ending(Step.RETEST) is Ending.TIMED_OUT
    assert driver.incident.closed is Outcome.RECOVERED


# -- illegal events


def test_an_illegal_event_tells_the_whole_story() -> None:
    driver = Driver(endings={Step.EVIDENCE: None}).run()
    with pytest.raises(IllegalTransition) as caught:
        driver.write(EventKind.STEP_BEGUN, step=Step.DIAGNOSE, data={"deadline_at": START + 10})
    story = str(caught.value)
    for part in (
        "i-1",
        "llm-0",
        "step_begun diagnose",
        "evidence, which has not ended",
        "evidence running",
        "last events",
    ):
        assert part in story


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (Event(kind=EventKind.OPENED, at=START), "opened already"),
        (Event(kind=EventKind.STEP_BEGUN, at=START, step=Step.START, data={"deadline_at": START + 9}), "in no plan"),
        (Event(kind=EventKind.STEP_BEGUN, at=START, step=Step.DIAGNOSE), "without a deadline"),
        (Event(kind=EventKind.STEP_ENDED, at=START, step=Step.DIAGNOSE, ending=Ending.DONE), "never begun"),
        (Event(kind=EventKind.STEP_ENDED, at=START, step=Step.EVIDENCE), "how the step ended"),
        (Event(kind=EventKind.STEP_ENDED, at=START, step=Step.STOP_TRAFFIC, ending=Ending.DONE), "has ended already"),
        (Event(kind=EventKind.INTENT, at=START, step=Step.DECIDE, action="x"), "not running"),
        (Event(kind=EventKind.RESULT, at=START, step=Step.EVIDENCE, action="x", ending=Ending.DONE), "no open intent"),
        (Event(kind=EventKind.DECIDED, at=START, step=Step.DECIDE, data={}), "not running"),
        (Event(kind=EventKind.CLOSED, at=START, data={"outcome": "recovered"}), "still running"),
        (Event(kind=EventKind.PLANNED, at=START, data={"steps": 3}), "cannot be read"),
        (Event(kind=EventKind.PLANNED, at=START, data={"steps": [ORPHAN]}), "in no plan"),
        (Event(kind=EventKind.NOTED, at=float("nan")), "no time"),
    ],
)  # fmt: skip
def test_an_event_out_of_its_place_is_refused(event: Event, why: str) -> None:
    driver = Driver(endings={Step.EVIDENCE: None}).run()
    before = driver.incident
    with pytest.raises(IllegalTransition, match=why):
        driver.add(event)
    assert driver.incident is before


def test_an_action_is_not_done_twice_but_taken_over_after_a_crash() -> None:
    driver = Driver(endings={Step.TERMINATE: None}).run()
    with pytest.raises(IllegalTransition, match="no result yet"):
        driver.intend(Step.TERMINATE)
    with pytest.raises(IllegalTransition, match="has no result yet"):
        driver.write(EventKind.STEP_ENDED, step=Step.TERMINATE, ending=Ending.DONE)
    driver.write(EventKind.RUNNER, by="r2")
    driver.intend(Step.TERMINATE)
    driver.result(Step.TERMINATE, Ending.DONE)
    with pytest.raises(IllegalTransition, match="done already"):
        driver.intend(Step.TERMINATE)


def test_closed_is_final_for_a_runner() -> None:
    driver = Driver().run()
    with pytest.raises(IllegalTransition, match="closed is final"):
        driver.write(EventKind.RUNNER, by="r2")
    driver.write(EventKind.NOTED, by="kim", note="looked at")


def test_events_that_are_missing_or_twice_are_refused() -> None:
    driver = Driver().run()
    with pytest.raises(IllegalTransition, match="events are missing or twice"):
        fold("i-1", [*driver.events[:4], *driver.events[5:]])
    with pytest.raises(IllegalTransition, match="events are missing or twice"):
        fold("i-1", [*driver.events[:4], driver.events[3]])
    with pytest.raises(IllegalTransition, match="never opened"):
        fold("i-1", [])


def test_a_decision_without_a_plan_is_not_the_end_of_decide() -> None:
    driver = Driver(endings={Step.DECIDE: None}).run()
    with pytest.raises(IllegalTransition, match="DECIDED and then PLANNED"):
        driver.write(EventKind.STEP_ENDED, step=Step.DECIDE, ending=Ending.DONE)


def test_a_decide_that_failed_closes_and_gives_traffic_back_to_what_moves() -> None:
    driver = Driver(endings={Step.DECIDE: Ending.FAILED}).run()
    assert driver.incident.closed is Outcome.FAILED
    assert Step.RESTORE not in driver.order()
    moving = Driver(opening(progress=Progress.ADVANCING), endings={Step.DECIDE: Ending.FAILED}).run()
    assert moving.order()[-1] is Step.RESTORE


def test_a_decide_that_ran_out_of_time_is_tried_again_within_the_total_deadline() -> None:
    driver = Driver(endings={Step.DECIDE: None}).run()
    for _ in range(3):
        driver.end(Step.DECIDE, Ending.TIMED_OUT)
        (again,) = driver.due()
        assert isinstance(again, Begin)
        assert again.step is Step.DECIDE
        driver.begin(again)
    driver.end(Step.DECIDE, Ending.DONE)
    driver.run()
    assert driver.incident.closed is Outcome.RECOVERED


def test_a_decide_that_never_comes_back_is_given_up_in_the_end() -> None:
    driver = Driver(endings={Step.DECIDE: Ending.TIMED_OUT}).run()
    assert driver.incident.closed is Outcome.FAILED
    assert driver.order().count(Step.DECIDE) == DECIDE_TURNS


def test_close_is_asked_for_alone() -> None:
    driver = Driver(endings={Step.RESTORE: None}).run()
    driver.end(Step.RESTORE, Ending.DONE)
    (one,) = driver.due()
    assert isinstance(one, Close)
