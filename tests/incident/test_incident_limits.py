"""Budgets and the circuit breaker: what is refused, with the numbers, and how it comes to an end by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from machine_driver import Driver
from rankmuster.incident.judge_limits import (
    BreakerState,
    at_once,
    breaker_at,
    breaker_view,
    horizon,
    judge,
    too_many,
)
from rankmuster.incident.judge_limits import told as told_of_breaker
from rankmuster.incident.limits import Limits
from rankmuster.incident.machine.fold import fold
from rankmuster.incident.memory_journal import MemoryJournal
from rankmuster.incident.within_limits import allowed_now, count_resumed, give_back_unused, within_limits
from rankmuster.model.fault import Boundary, FaultClass, Progress
from rankmuster.model.incident import (
    Breaker,
    Course,
    Decision,
    Ending,
    Event,
    EventKind,
    FleetView,
    IncidentHead,
    Lease,
    OpenedBy,
    Opening,
    Outcome,
    Step,
    Use,
    UseKind,
)

NOW = 1_790_000_000.0
LIMITS = Limits()


def use(kind: UseKind, subject: str, ago: float, *, ended: bool = False, incident: str = "other") -> Use:
    return Use(kind=kind, subject=subject, incident=incident, at=NOW - ago, ended_at=NOW - ago + 1 if ended else None)


def head(instance: str, ago: float, outcome: Outcome | None = None) -> IncidentHead:
    return IncidentHead(
        id=f"{instance}-{ago}",
        instance=instance,
        incarnation=None,
        opened_at=NOW - ago,
        by=OpenedBy.STOPPED,
        closed_at=None if outcome is None else NOW - ago + 1,
        outcome=outcome,
    )


REBUILD = [(UseKind.REBUILD, "llm-0")]


def test_an_instance_that_was_rebuilt_three_times_is_not_helped_by_a_fourth() -> None:
    uses = tuple(use(UseKind.REBUILD, "llm-0", ago, ended=True) for ago in (100, 1000, 3000, 5000))
    found = judge(FleetView(uses=uses), REBUILD, LIMITS, NOW, "mine")
    assert not found.allowed
    assert "llm-0 was rebuilt 3 times within 3600 s, and 3 is the limit" in found.why
    assert judge(FleetView(uses=uses[1:]), REBUILD, LIMITS, NOW, "mine").allowed


def test_so_many_rebuilds_at_once() -> None:
    uses = tuple(use(UseKind.REBUILD, f"llm-{number}", 10) for number in range(1, 5))
    found = judge(FleetView(uses=uses), REBUILD, LIMITS, NOW, "mine")
    assert found.why == "4 instances are rebuilt now, and 4 may be at once"
    assert judge(FleetView(uses=uses[1:]), REBUILD, LIMITS, NOW, "mine").allowed


def test_what_is_had_already_is_not_asked_for_again() -> None:
    uses = tuple(use(UseKind.REBUILD, f"llm-{number}", 10) for number in range(1, 5))
    mine = use(UseKind.REBUILD, "llm-0", 5, incident="mine")
    assert judge(FleetView(uses=(*uses, mine)), REBUILD, LIMITS, NOW, "mine").allowed


def test_a_node_is_fenced_so_often_and_so_many_at_once() -> None:
    wanted = [(UseKind.FENCE, "n")]
    twice = tuple(use(UseKind.FENCE, "n", ago, ended=True) for ago in (100, 50_000))
    assert "n was fenced 2 times" in judge(FleetView(uses=twice), wanted, LIMITS, NOW, "mine").why
    many = tuple(use(UseKind.FENCE, f"n{number}", 10) for number in range(3))
    found = judge(FleetView(uses=many), [*wanted, (UseKind.FENCE, "m")], LIMITS, NOW, "mine")
    assert found.why == "4 nodes are fenced now, and 4 may be at once; m would be one more"
    assert judge(FleetView(uses=many), wanted, LIMITS, NOW, "mine").allowed


@pytest.mark.parametrize(
    ("number", "share", "size", "most"), [(4, 0.1, 0, 4), (4, 0.1, 10, 1), (4, 0.1, 1000, 4), (4, 0.1, 25, 2)]
)
def test_a_number_and_a_share_both_hold(number: int, share: float, size: int, most: int) -> None:
    assert at_once(number, share, size) == most


@pytest.mark.parametrize(("instances", "least"), [(0, 5), (4, 3), (40, 4), (1000, 5)])
def test_the_breaker_opens_at_a_number_or_a_share(instances: int, least: int) -> None:
    assert breaker_at(replace(LIMITS, instances=instances)) == least


def test_many_in_trouble_at_once_open_the_breaker() -> None:
    opened = tuple(head(f"llm-{number}", 10 * number) for number in range(5))
    found = judge(FleetView(opened=opened), REBUILD, LIMITS, NOW, "mine")
    assert not found.allowed
    assert found.open_breaker is not None
    assert "5 instances got into trouble within 300 s" in found.open_breaker
    assert judge(FleetView(opened=opened[1:]), REBUILD, LIMITS, NOW, "mine").allowed


@pytest.mark.parametrize("outcome", [Outcome.HELD, Outcome.FAILED, Outcome.GAVE_UP, Outcome.ABORTED])
def test_an_instance_that_is_in_the_same_trouble_still_does_not_count_again(outcome: Outcome) -> None:
    before = tuple(head(f"llm-{number}", 2000, outcome) for number in range(5))
    again = tuple(head(f"llm-{number}", 10) for number in range(5))
    assert too_many(FleetView(opened=(*before, *again)), LIMITS, NOW) is None
    well = tuple(replace(one, outcome=Outcome.RECOVERED) for one in before)
    assert too_many(FleetView(opened=(*well, *again)), LIMITS, NOW) is not None


def test_what_was_before_the_breakers_end_does_not_open_it_again() -> None:
    opened = tuple(head(f"llm-{number}", 100) for number in range(9))
    breaker = Breaker(opened_at=NOW - 90, why="many", closed_at=NOW - 50, closed_by="kim")
    assert too_many(FleetView(opened=opened, breaker=breaker), LIMITS, NOW) is None


def view(*ago: float, opened_ago: float = 1000.0, **values: Any) -> FleetView:
    heads = tuple(head(f"llm-{number}", seconds) for number, seconds in enumerate(ago))
    return FleetView(opened=heads, breaker=Breaker(opened_at=NOW - opened_ago, why="five at once"), **values)


def test_an_open_breaker_refuses_all_and_says_until_when() -> None:
    found = judge(view(opened_ago=400), REBUILD, LIMITS, NOW, "mine")
    assert not found.allowed
    assert found.open_breaker is None
    for words in ("open since 400 s", "five at once", "in 500 s"):
        assert words in found.why
    assert "five at once" in told_of_breaker(view().breaker, LIMITS, view(), NOW)


def test_after_a_quiet_time_one_is_let_through_at_a_time() -> None:
    assert breaker_view(view(), LIMITS, NOW).state is BreakerState.HALF_OPEN
    assert judge(view(), REBUILD, LIMITS, NOW, "mine").allowed
    busy = view(uses=(use(UseKind.REBUILD, "llm-7", 20),))
    assert "llm-7 is rebuilt now" in judge(busy, REBUILD, LIMITS, NOW, "mine").why


def test_it_is_quiet_while_fewer_are_in_trouble_than_open_it() -> None:
    some = view(10, 20, 30, 40)
    assert breaker_view(some, LIMITS, NOW).state is BreakerState.HALF_OPEN
    many = view(10, 20, 30, 40, 50)
    assert breaker_view(many, LIMITS, NOW).state is BreakerState.OPEN


def test_a_rebuild_that_served_again_proves_that_it_may_close() -> None:
    tried = use(UseKind.REBUILD, "llm-7", 80, ended=True, incident="llm-7-90")
    for outcome, state in ((Outcome.RECOVERED, BreakerState.PROVEN), (Outcome.FAILED, BreakerState.HALF_OPEN)):
        opened = (head("llm-7", 90, outcome),)
        found = FleetView(opened=opened, uses=(tried,), breaker=view().breaker)
        assert breaker_view(found, LIMITS, NOW).state is state
    early = replace(tried, at=NOW - 300)
    proven_before = FleetView(opened=(head("llm-7", 90, Outcome.RECOVERED),), uses=(early,), breaker=view().breaker)
    assert breaker_view(proven_before, LIMITS, NOW).state is BreakerState.HALF_OPEN


# -- over a journal


class Fleet:
    """Instances with an open incident each, in a journal."""

    def __init__(self, count: int, limits: Limits = LIMITS, ago: float = 5000.0) -> None:
        self.limits, self.now = limits, NOW
        self.journal = MemoryJournal(lambda: self.now)
        self.leases: dict[str, tuple[str, Lease]] = {}
        for number in range(count):
            self.open(f"llm-{number}", NOW - ago)

    def open(self, instance: str, at: float) -> None:
        given = Opening(instance=instance, incarnation=None, by=OpenedBy.STOPPED, progress=Progress.STOPPED, at=at)
        name, _ = self.journal.open_incident(given, "r")
        lease = self.journal.take_lease(instance, "r", 1e9)
        assert lease is not None
        self.leases[instance] = (name, lease)

    def ask(self, instance: str, fence: tuple[str, ...] = (), *, approved: bool = False) -> Decision:
        name, lease = self.leases[instance]
        wanted = Decision(
            course=Course.REBUILD,
            boundary=Boundary.NODE,
            table=Boundary.NODE,
            class_=FaultClass.PROCESS_OR_DEVICE_LOST,
            subclass=None,
            confidence=None,
            progress=Progress.STOPPED,
            fence=fence,
        )
        return within_limits(self.journal, name, lease, wanted, instance, self.limits, self.now, approved=approved)

    def close(self, instance: str, outcome: Outcome = Outcome.RECOVERED) -> None:
        name, lease = self.leases[instance]
        event = Event(kind=EventKind.CLOSED, at=self.now, data={"outcome": outcome.value})
        self.journal.append(name, lease, event)


def test_a_rebuild_that_limits_refuse_is_held_and_allowed_later() -> None:
    fleet = Fleet(5)
    for number in range(4):
        assert fleet.ask(f"llm-{number}").course is Course.REBUILD
    held = fleet.ask("llm-4")
    assert (held.course, held.waits_for_limits) == (Course.HOLD, True)
    assert held.held == "4 instances are rebuilt now, and 4 may be at once"
    name, lease = fleet.leases["llm-4"]
    assert not allowed_now(fleet.journal, name, lease, "llm-4", fleet.limits, fleet.now).allowed
    fleet.close("llm-0")
    assert allowed_now(fleet.journal, name, lease, "llm-4", fleet.limits, fleet.now).allowed
    assert fleet.ask("llm-4").course is Course.REBUILD
    assert len(fleet.journal.uses(name)) == 1


def test_an_operator_stands_above_limits_and_is_counted() -> None:
    fleet = Fleet(6)
    for number in range(4):
        fleet.ask(f"llm-{number}")
    assert fleet.ask("llm-4", ("n",), approved=True).course is Course.REBUILD
    assert "5 instances are rebuilt now" in (fleet.ask("llm-5").held or "")


def test_a_fence_that_is_not_allowed_is_left_out() -> None:
    fleet = Fleet(1)
    found = fleet.ask("llm-0", tuple(f"n{number}" for number in range(6)))
    assert found.course is Course.REBUILD
    assert found.fence == ("n0", "n1", "n2", "n3")
    assert sum("is not fenced" in line for line in found.why) == 2


def test_fences_that_were_never_made_are_given_back() -> None:
    fleet = Fleet(1)
    fleet.ask("llm-0", ("n0", "n1"))
    name, _ = fleet.leases["llm-0"]
    incident = fold(name, fleet.journal.events(name))
    assert give_back_unused(fleet.journal, incident, NOW) == ("n0", "n1")
    assert give_back_unused(fleet.journal, incident, NOW) == ()
    assert [one.kind for one in fleet.journal.uses(name) if one.ended_at is None] == [UseKind.REBUILD]


def test_what_is_resumed_is_counted() -> None:
    fleet = Fleet(1)
    name, lease = fleet.leases["llm-0"]
    driver = Driver(endings={Step.START: Ending.FAILED}).run()
    driver.tell(EventKind.REOPENED)
    driver.plan()
    incident = replace(driver.incident, id=name)
    for _ in range(2):
        count_resumed(fleet.journal, incident, lease, LIMITS, NOW)
    assert [(one.kind, one.subject) for one in fleet.journal.uses(name)] == REBUILD


def test_the_breaker_opens_tries_one_and_closes_by_itself() -> None:
    fleet = Fleet(8, ago=20)
    assert "opens" in (fleet.ask("llm-0").held or "")
    breaker = fleet.journal.breaker()
    assert breaker is not None
    assert breaker.closed_at is None
    fleet.now += 800
    assert "is open since 800 s" in (fleet.ask("llm-1").held or "")
    fleet.now += 200
    assert fleet.ask("llm-2").course is Course.REBUILD
    assert "llm-2 is rebuilt now" in (fleet.ask("llm-3").held or "")
    fleet.now += 300
    fleet.close("llm-2")
    fleet.now += 1
    assert fleet.ask("llm-3").course is Course.REBUILD
    assert fleet.ask("llm-4").course is Course.REBUILD
    closed = fleet.journal.breaker()
    assert closed is not None
    assert closed.closed_at == fleet.now


def test_a_try_that_fails_leaves_it_open_for_the_next_one() -> None:
    fleet = Fleet(8, ago=20)
    fleet.ask("llm-0")
    fleet.now += 1000
    fleet.ask("llm-2")
    fleet.now += 600
    fleet.close("llm-2", Outcome.FAILED)
    assert fleet.ask("llm-3").course is Course.REBUILD
    assert fleet.ask("llm-4").course is Course.HOLD
    breaker = fleet.journal.breaker()
    assert breaker is not None
    assert breaker.closed_at is None


def test_one_looks_back_as_far_as_the_longest_limit() -> None:
    assert horizon(LIMITS) == 86_400.0
