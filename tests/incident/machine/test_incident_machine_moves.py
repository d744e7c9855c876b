"""What the watch says while people or limits are waited for: what goes on by itself is not kept from its traffic."""

from __future__ import annotations

import pytest

from machine_driver import Driver, decision, opening
from rankmuster.model.fault import Boundary, FaultClass, Progress, Subkind
from rankmuster.model.incident import Course, Decision, Ending, EventKind, OpenedBy, Outcome, Step

HELD = decision(Course.HOLD, held="the verdict does not decide")
BY_LIMITS = decision(Course.HOLD, held="4 instances are rebuilt now", waits_for_limits=True)
PLANNED_REBUILD = decision(
    Course.HOLD, boundary=Boundary.NODE, progress=Progress.SLOW, held="it is slow and serves", fence=("node-1",)
)
SLOW = opening(OpenedBy.SLOW, Progress.SLOW)


@pytest.mark.parametrize("made", [HELD, BY_LIMITS])
@pytest.mark.parametrize("progress", [Progress.ADVANCING, Progress.IDLE])
def test_what_moves_again_while_it_is_held_gets_its_traffic_at_once(made: Decision, progress: Progress) -> None:
    driver = Driver(decisions=[made]).run()
    driver.see(progress)
    driver.run()
    assert driver.ending(Step.APPROVE) is Ending.SKIPPED
    assert driver.order()[-1] is Step.RESTORE
    assert driver.incident.closed is Outcome.RESTORED
    assert "goes on by itself" in driver.events[-1].note


def test_a_rebuild_that_waits_for_approval_is_not_wanted_any_more_once_it_moves() -> None:
    driver = Driver(approve=[Step.TERMINATE]).run()
    assert Step.APPROVE in driver.order()
    driver.see(Progress.ADVANCING)
    driver.run()
    assert Step.TERMINATE not in driver.order()
    assert driver.incident.closed is Outcome.RESTORED


def test_where_its_traffic_cannot_be_given_back_that_is_no_good_end() -> None:
    driver = Driver(decisions=[HELD], endings={Step.RESTORE: Ending.FAILED}).run()
    driver.see(Progress.ADVANCING)
    driver.run()
    assert driver.incident.closed is Outcome.FAILED
    assert "traffic stays stopped" in driver.events[-1].note


def test_of_a_process_that_is_gone_nothing_comes_back_by_itself() -> None:
    killed = decision(
        Course.HOLD, class_=FaultClass.PROCESS_OR_DEVICE_LOST, subclass=Subkind.KILLED, held="limits",
        waits_for_limits=True,
    )  # fmt: skip
    driver = Driver(decisions=[killed]).run()
    driver.see(Progress.IDLE)
    driver.run()
    assert driver.incident.closed is None
    assert Step.RESTORE not in driver.order()


def test_what_somebody_has_started_anew_meanwhile_gets_its_traffic() -> None:
    killed = decision(
        Course.HOLD, class_=FaultClass.PROCESS_OR_DEVICE_LOST, subclass=Subkind.KILLED, held="limits",
        waits_for_limits=True,
    )  # fmt: skip
    driver = Driver(decisions=[killed])
    driver.write(EventKind.SEEN, data={"progress": "stopped", "incarnation": "as the watch calls it"})
    driver.run()
    driver.write(EventKind.SEEN, data={"progress": "idle", "incarnation": "a new one"})
    driver.run()
    assert driver.order()[-1] is Step.RESTORE
    assert Step.TERMINATE not in driver.order()
    assert driver.incident.closed is Outcome.RESTORED


def test_an_approval_before_traffic_is_given_back_is_waited_for_though_it_serves() -> None:
    driver = Driver(approve=[Step.RESTORE]).run()
    assert driver.order()[-1] is Step.APPROVE
    driver.see(Progress.ADVANCING)
    driver.run()
    assert driver.order()[-1] is Step.APPROVE
    driver.tell(EventKind.APPROVED)
    driver.run()
    assert driver.incident.closed is Outcome.RECOVERED


def test_a_slow_one_keeps_its_lowered_weight_when_nobody_approves() -> None:
    driver = Driver(SLOW, decisions=[PLANNED_REBUILD]).run()
    driver.wait(driver.budget.of(Step.APPROVE))
    assert driver.incident.closed is None, "the time that a slow one has to recover is waited for"
    driver.wait(driver.budget.of(Step.RECOVER))
    assert driver.incident.closed is Outcome.HELD
    assert Step.RESTORE not in driver.order()
    assert "its weight at the gateway stays lowered" in driver.events[-1].note


def test_a_slow_one_that_recovers_while_it_is_held_is_given_all_again() -> None:
    driver = Driver(SLOW, decisions=[PLANNED_REBUILD]).run()
    driver.see(Progress.ADVANCING)
    driver.run()
    assert driver.order()[-1] is Step.RESTORE
    assert driver.incident.closed is Outcome.RESTORED


def test_a_slow_one_gets_its_weight_back_where_an_operator_aborts() -> None:
    driver = Driver(SLOW, decisions=[PLANNED_REBUILD]).run()
    driver.tell(EventKind.ABORTED)
    driver.run()
    assert driver.order()[-1] is Step.RESTORE


@pytest.mark.parametrize("by", [OpenedBy.STOPPED, OpenedBy.ENDED])
@pytest.mark.parametrize("aborted", [False, True])
def test_a_watch_that_went_blind_gives_no_traffic_to_what_had_stopped(by: OpenedBy, aborted: bool) -> None:
    driver = Driver(opening(by), decisions=[HELD]).run()
    driver.see(Progress.UNKNOWN)
    if aborted:
        driver.tell(EventKind.ABORTED)
    driver.wait(driver.budget.of(Step.APPROVE))
    assert Step.RESTORE not in driver.order()
    assert "traffic stays stopped" in driver.events[-1].note
