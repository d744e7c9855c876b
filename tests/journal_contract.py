"""What every journal of incidents has to do, whatever it is kept in: checks over `make(clock)`, for tests of each.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_contract(check, make): check(make)

Each check takes a factory that gives a fresh, empty journal whose leases run by the clock that it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rankmuster.incident.journal import Journal, JournalError, LeaseLost
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress, Subkind
from rankmuster.model.incident import (
    Course,
    Decision,
    Ending,
    Event,
    EventKind,
    FleetView,
    OpenedBy,
    Opening,
    Outcome,
    Permit,
    Step,
    UseKind,
)
from rankmuster.model.plain_json import Bounds, from_plain, to_plain

BOUNDS = Bounds(text=10_000, members=1_000)
START = 1_790_000_000.0


class Clock:
    """Seconds that a test moves. The journal's leases and its callers' unix time are both read from it."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


Make = Callable[[Callable[[], float]], Any]


def opening(instance: str = "llm-0", at: float = START, **values: Any) -> Opening:
    return Opening(
        **{
            "instance": instance,
            "incarnation": "2026-09-20T10:00:00Z",
            "by": OpenedBy.STOPPED,
            "progress": Progress.STOPPED,
            "at": at,
            "reason": "no token for 15 s",
            "pids": (11, 12),
            **values,
        }
    )


def decided(at: float = START) -> Event:
    decision = Decision(
        course=Course.REBUILD,
        boundary=Boundary.NODE,
        table=Boundary.PROCESS_GROUP,
        class_=FaultClass.TRANSPORT_STALL,
        subclass=Subkind.PATH_LOST,
        confidence=Confidence.LIKELY,
        progress=Progress.STOPPED,
        fence=("node-7",),
        why=("suspected twice",),
    )
    return Event(kind=EventKind.DECIDED, at=at, step=Step.DECIDE, data=to_plain(decision, BOUNDS))


def closed(outcome: Outcome = Outcome.RECOVERED, at: float = START) -> Event:
    return Event(kind=EventKind.CLOSED, at=at, note="it serves", data={"outcome": outcome.value})


def allow(_: FleetView) -> Permit:
    return Permit(allowed=True)


def _lease(journal: Journal, instance: str = "llm-0", holder: str = "runner-a", seconds: float = 30.0) -> Any:
    lease = journal.take_lease(instance, holder, seconds)
    assert lease is not None
    return lease


def one_open_incident_an_instance(make: Make) -> None:
    journal = make(Clock())
    first, new = journal.open_incident(opening(), "runner-a")
    again, new_again = journal.open_incident(opening(at=START + 5), "runner-b")
    assert (new, new_again, again) == (True, False, first)
    other, new_other = journal.open_incident(opening("llm-1", START + 6), "runner-a")
    assert new_other
    assert other != first
    journal.append(first, _lease(journal), closed())
    later, new_later = journal.open_incident(opening(at=START + 60), "runner-a")
    assert new_later
    assert later > first


def the_opening_is_the_first_event(make: Make) -> None:
    journal = make(Clock())
    given = opening(host="node-é", metrics_url="http://node:8000/metrics")
    name, _ = journal.open_incident(given, "runner-a")
    (event,) = journal.events(name)
    assert (event.kind, event.sequence, event.at, event.by) == (EventKind.OPENED, 1, START, "runner-a")
    assert from_plain(Opening, dict(event.data), BOUNDS) == given


def events_keep_their_order_and_all_that_is_in_them(make: Make) -> None:
    journal = make(Clock())
    name, _ = journal.open_incident(opening(), "runner-a")
    lease = _lease(journal)
    event = Event(
        kind=EventKind.RESULT,
        at=START + 1.25,
        step=Step.STOP_TRAFFIC,
        action="front:stop_new",
        ending=Ending.PARTIAL,
        note="2 von 3 Servern – „ja“",
        by="runner-a",
        data={"requests": 3, "nested": {"a": [1, 2.5, None, "é"]}, "found": True},
    )
    made = journal.append(name, lease, event)
    journal.append(name, lease, Event(kind=EventKind.NOTED, at=START))
    assert made.sequence == 2
    found = journal.events(name, after=1)
    assert [one.sequence for one in found] == [2, 3]
    assert found[0] == made
    assert (found[0].action, found[0].ending, dict(found[0].data)) == (event.action, event.ending, dict(event.data))
    assert [one.kind for one in journal.events(name, after=2)] == [EventKind.NOTED]


def an_unknown_incident_is_a_key_error(make: Make) -> None:
    journal = make(Clock())
    with pytest.raises(KeyError):
        journal.events("nothing")
    with pytest.raises(KeyError):
        journal.tell("nothing", Event(kind=EventKind.NOTED, at=START))


def operators_write_without_a_lease_and_only_what_is_theirs(make: Make) -> None:
    journal = make(Clock())
    name, _ = journal.open_incident(opening(), "runner-a")
    for kind in (EventKind.APPROVED, EventKind.ABORTED, EventKind.NOTED, EventKind.SEEN):
        assert journal.tell(name, Event(kind=kind, at=START, by="kim")).kind is kind
    for kind in (EventKind.STEP_BEGUN, EventKind.CLOSED, EventKind.DECIDED, EventKind.INTENT, EventKind.OPENED):
        with pytest.raises(ValueError, match=r"\w"):
            journal.tell(name, Event(kind=kind, at=START, by="kim"))
    assert len(journal.events(name)) == 5


def closed_is_final_until_a_resume(make: Make) -> None:
    journal = make(Clock())
    name, _ = journal.open_incident(opening(), "runner-a")
    lease = _lease(journal)
    journal.append(name, lease, closed(Outcome.HELD))
    (head,) = journal.incidents()
    assert (head.outcome, head.closed_at) == (Outcome.HELD, START)
    with pytest.raises(JournalError):
        journal.append(name, lease, Event(kind=EventKind.RUNNER, at=START))
    journal.tell(name, Event(kind=EventKind.NOTED, at=START, by="kim", note="looked at"))
    journal.tell(name, Event(kind=EventKind.REOPENED, at=START + 9, by="kim"))
    (head,) = journal.incidents(open_only=True)
    assert (head.id, head.outcome, head.closed_at) == (name, None, None)
    assert journal.open_incident(opening(at=START + 20), "runner-a") == (name, False)


def one_is_not_resumed_beside_an_open_one(make: Make) -> None:
    journal = make(Clock())
    first, _ = journal.open_incident(opening(), "runner-a")
    journal.append(first, _lease(journal), closed(Outcome.FAILED))
    second, _ = journal.open_incident(opening(at=START + 60), "runner-a")
    with pytest.raises(JournalError):
        journal.tell(first, Event(kind=EventKind.REOPENED, at=START + 61, by="kim"))
    assert [one.id for one in journal.incidents(open_only=True)] == [second]


def heads_say_what_was_decided_newest_first(make: Make) -> None:
    clock = Clock()
    journal = make(clock)
    names = []
    for number in range(4):
        names.append(journal.open_incident(opening(f"llm-{number}", START + number), "runner-a")[0])
    journal.append(names[1], _lease(journal, "llm-1"), decided())
    assert [one.id for one in journal.incidents()] == names[::-1]
    assert [one.id for one in journal.incidents(limit=2)] == names[:1:-1]
    (head,) = journal.incidents(instance="llm-1")
    assert (head.class_, head.boundary, head.lease) == (FaultClass.TRANSPORT_STALL, Boundary.NODE, "runner-a")
    clock.now += 31
    assert journal.incidents(instance="llm-1")[0].lease is None


def a_lease_is_had_by_one(make: Make) -> None:
    clock = Clock()
    journal = make(clock)
    name, _ = journal.open_incident(opening(), "runner-a")
    first = _lease(journal)
    assert journal.take_lease("llm-0", "runner-b", 30) is None
    assert journal.take_lease("llm-1", "runner-b", 30) is not None
    again = _lease(journal)
    assert again.token > first.token
    for stale in (
        lambda: journal.append(name, first, Event(kind=EventKind.RUNNER, at=START)),
        lambda: journal.renew(first, 30),
        lambda: journal.reserve(name, first, [(UseKind.REBUILD, "llm-0")], allow, 3600, START),
    ):
        with pytest.raises(LeaseLost):
            stale()
    journal.append(name, again, Event(kind=EventKind.RUNNER, at=START))
    assert len(journal.events(name)) == 2
    assert journal.uses(name) == ()


def a_lease_runs_out_and_is_renewed(make: Make) -> None:
    clock = Clock()
    journal = make(clock)
    name, _ = journal.open_incident(opening(), "runner-a")
    lease = _lease(journal, seconds=10)
    clock.now += 8
    lease = journal.renew(lease, 10)
    clock.now += 8
    journal.append(name, lease, Event(kind=EventKind.RUNNER, at=clock.now))
    clock.now += 3
    with pytest.raises(LeaseLost):
        journal.append(name, lease, Event(kind=EventKind.RUNNER, at=clock.now))
    other = _lease(journal, holder="runner-b")
    assert other.token > lease.token
    journal.release(lease)
    assert journal.take_lease("llm-0", "runner-c", 30) is None
    journal.release(other)
    assert journal.take_lease("llm-0", "runner-c", 30) is not None


def what_is_reserved_is_judged_and_counted_once(make: Make) -> None:
    journal = make(Clock())
    name, _ = journal.open_incident(opening(), "runner-a")
    lease = _lease(journal)
    wanted = [(UseKind.REBUILD, "llm-0"), (UseKind.FENCE, "node-7")]
    views: list[FleetView] = []

    def judge(view: FleetView) -> Permit:
        views.append(view)
        return Permit(allowed=len(views) != 1, why="no")

    refused = journal.reserve(name, lease, wanted, judge, 3600, START)
    assert (refused.allowed, refused.why, journal.uses(name)) == (False, "no", ())
    for _ in range(3):
        assert journal.reserve(name, lease, wanted, judge, 3600, START + 1).allowed
    assert len(journal.uses(name)) == 2
    assert {(one.kind, one.subject, one.incident) for one in views[-1].uses} == {(*one, name) for one in wanted}
    assert [one.id for one in views[-1].opened] == [name]
    journal.end_use(name, UseKind.FENCE, "node-7", START + 2)
    ends = {one.kind: one.ended_at for one in journal.uses(name)}
    assert ends == {UseKind.REBUILD: None, UseKind.FENCE: START + 2}
    journal.reserve(name, lease, wanted, allow, 3600, START + 3)
    assert len(journal.uses(name)) == 3


def a_rebuild_ends_with_its_incident_and_a_fence_does_not(make: Make) -> None:
    journal = make(Clock())
    name, _ = journal.open_incident(opening(), "runner-a")
    lease = _lease(journal)
    journal.reserve(name, lease, [(UseKind.REBUILD, "llm-0"), (UseKind.FENCE, "node-7")], allow, 3600, START)
    journal.append(name, lease, closed(at=START + 50))
    assert {one.kind: one.ended_at for one in journal.uses(name)} == {
        UseKind.REBUILD: START + 50,
        UseKind.FENCE: None,
    }


def a_fleet_is_what_happened_lately_and_what_lasts(make: Make) -> None:
    journal = make(Clock())
    names = []
    for number in range(3):
        instance = f"llm-{number}"
        name, _ = journal.open_incident(opening(instance, START + 100 * number), "runner-a")
        names.append(name)
        lease = _lease(journal, instance)
        journal.reserve(name, lease, [(UseKind.REBUILD, instance)], allow, 3600, START + 100 * number)
        if number != 1:
            journal.append(name, lease, closed(at=START + 100 * number + 10))
    view = journal.fleet(50, START + 220)
    assert [one.id for one in view.opened] == names[1:]
    assert [one.subject for one in view.uses] == ["llm-1", "llm-2"]
    assert view.breaker is None


def the_breaker_opens_once_and_is_closed_by_somebody(make: Make) -> None:
    journal = make(Clock())
    assert journal.breaker() is None
    assert not journal.close_breaker("kim", START)
    name, _ = journal.open_incident(opening(), "runner-a")
    stop = Permit(allowed=False, why="too many", open_breaker="five at once")
    journal.reserve(name, _lease(journal), [(UseKind.REBUILD, "llm-0")], lambda _: stop, 3600, START + 1)
    journal.open_breaker("by hand", START + 2)
    found = journal.breaker()
    assert (found.opened_at, found.why, found.closed_at) == (START + 1, "five at once", None)
    assert journal.uses(name) == ()
    assert journal.fleet(60, START + 2).breaker == found
    assert journal.close_breaker("kim", START + 3)
    found = journal.breaker()
    assert (found.closed_at, found.closed_by) == (START + 3, "kim")
    journal.open_breaker("by hand", START + 4)
    assert journal.breaker().why == "by hand"


CHECKS: tuple[Callable[[Make], None], ...] = (
    one_open_incident_an_instance,
    the_opening_is_the_first_event,
    events_keep_their_order_and_all_that_is_in_them,
    an_unknown_incident_is_a_key_error,
    operators_write_without_a_lease_and_only_what_is_theirs,
    closed_is_final_until_a_resume,
    one_is_not_resumed_beside_an_open_one,
    heads_say_what_was_decided_newest_first,
    a_lease_is_had_by_one,
    a_lease_runs_out_and_is_renewed,
    what_is_reserved_is_judged_and_counted_once,
    a_rebuild_ends_with_its_incident_and_a_fence_does_not,
    a_fleet_is_what_happened_lately_and_what_lasts,
    the_breaker_opens_once_and_is_closed_by_somebody,
)
