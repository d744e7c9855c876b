"""A runner without a world: does what is due at once, with endings that a test chooses, and keeps the events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rankmuster.incident.budget import Budget
from rankmuster.incident.machine.due import due
from rankmuster.incident.machine.due_kinds import Abandon, Begin, Close, Due, Finish, PassDeadline, Skip
from rankmuster.incident.machine.fold import BOUNDS, advance, fold
from rankmuster.incident.machine.plan import next_plan, plan_after, planned_event
from rankmuster.incident.machine.state import Incident
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress
from rankmuster.model.incident import (
    Course,
    Decision,
    Ending,
    Event,
    EventKind,
    OpenedBy,
    Opening,
    Step,
)
from rankmuster.model.plain_json import to_plain

START = 1_790_000_000.0

ACTS = (
    Step.SHED,
    Step.STOP_TRAFFIC,
    Step.FENCE,
    Step.CUT,
    Step.TERMINATE,
    Step.SHORT_RETEST,
    Step.START,
    Step.RESTORE,
    Step.RETEST,
    Step.SETTLE,
)
"""Steps that do something through an action."""

WAITS = (Step.APPROVE, Step.RECOVER)


def opening(by: OpenedBy = OpenedBy.STOPPED, progress: Progress = Progress.STOPPED) -> Opening:
    return Opening(instance="llm-0", incarnation="first", by=by, progress=progress, at=START)


def decision(course: Course = Course.REBUILD, **values: Any) -> Decision:
    return Decision(
        **{
            "course": course,
            "boundary": Boundary.PROCESS_GROUP,
            "table": Boundary.PROCESS_GROUP,
            "class_": FaultClass.COLLECTIVE_DESYNC,
            "subclass": None,
            "confidence": Confidence.CONFIRMED,
            "progress": Progress.STOPPED,
            **values,
        }
    )


class Driver:
    """`decisions`: what DECIDE comes to, the last one again and again. `endings`: of steps, DONE where none is given;
    a step with None stays running until it is told to end. `observed`: whether actions only say what they would do."""

    def __init__(
        self,
        given: Opening | None = None,
        *,
        decisions: Sequence[Decision] = (),
        endings: Mapping[Step, Ending | None] | None = None,
        budget: Budget | None = None,
        approve: Sequence[Step] = (),
        elsewhere: bool = False,
        free_undecided: bool = False,
        observed: bool = False,
    ) -> None:
        self.budget = budget or Budget()
        self.approve = tuple(approve)
        self.decisions = list(decisions) or [decision()]
        self.endings: dict[Step, Ending | None] = dict(endings or {})
        self.elsewhere, self.free_undecided, self.observed = elsewhere, free_undecided, observed
        self.now = START
        self.events: list[Event] = []
        first = opening() if given is None else given
        event = Event(kind=EventKind.OPENED, at=START, sequence=1, data=to_plain(first, BOUNDS))
        self.events.append(event)
        self.incident = fold("i-1", [event])

    # -- writing

    def write(self, kind: EventKind, **values: Any) -> None:
        at = values.pop("at", self.now)
        self.add(Event(kind=kind, at=at, **values))

    def add(self, event: Event) -> None:
        numbered = Event(
            kind=event.kind,
            at=event.at,
            sequence=len(self.events) + 1,
            step=event.step,
            action=event.action,
            ending=event.ending,
            note=event.note,
            by=event.by,
            data=event.data,
        )
        self.incident = advance(self.incident, numbered)
        self.events.append(numbered)

    def see(self, progress: Progress) -> None:
        self.write(EventKind.SEEN, data={"progress": progress.value})

    def tell(self, kind: EventKind, **data: Any) -> None:
        self.write(kind, by="kim", data=data)

    # -- doing

    def due(self) -> tuple[Due, ...]:
        return due(self.incident, self.now)

    def plan(self) -> None:
        plan = next_plan(self.incident, self.budget, self.approve)
        self.add(
            planned_event(
                plan,
                at=self.now,
                by="r",
                budget=self.budget,
                free_undecided=self.free_undecided,
                can_elsewhere=self.elsewhere,
            )
        )

    def begin(self, one: Begin) -> None:
        self.write(EventKind.STEP_BEGUN, step=one.step, data={"deadline_at": one.deadline_at})

    def intend(self, step: Step) -> None:
        self.write(EventKind.INTENT, step=step, action="it", data={"safe": True})

    def result(self, step: Step, ending: Ending) -> None:
        data: dict[str, Any] = {}
        if ending is Ending.NODE:
            data = {"node": "node-9"}
        elif step is Step.START and ending is Ending.DONE:
            data = {"incarnation": f"started-{len(self.events)}"}
        self.write(EventKind.RESULT, step=step, action="it", ending=ending, data=data)

    def end(self, step: Step, ending: Ending, note: str = "") -> None:
        """Ends it as the runner does: what is open gets a result first, a decision its plan."""
        state = self.incident.step(step)
        assert state is not None
        for action in state.actions:
            if action.open:
                self.result(step, ending)
        if step is Step.DECIDE and ending is Ending.DONE:
            made = self.decisions.pop(0) if len(self.decisions) > 1 else self.decisions[0]
            self.write(EventKind.DECIDED, step=step, data=to_plain(made, BOUNDS))
            plan = plan_after(made, self.incident, self.budget, self.approve)
            self.add(planned_event(plan, at=self.now, by="r", budget=self.budget))
        self.write(EventKind.STEP_ENDED, step=step, ending=ending, note=note)

    def do(self, one: Due) -> None:
        """As asked, at once. A step that ends well does so in the same moment."""
        if isinstance(one, Begin):
            self.begin(one)
            if one.step in ACTS:
                self.intend(one.step)
            ending = self.endings.get(one.step, Ending.DONE)
            if one.step in WAITS or ending is None:
                return
            observed = self.observed and one.step in (*ACTS, Step.VERIFY) and ending is Ending.DONE
            self.end(one.step, Ending.OBSERVED if observed else ending)
        elif isinstance(one, Skip):
            self.write(EventKind.STEP_ENDED, step=one.step, ending=Ending.SKIPPED, note=one.why)
        elif isinstance(one, (Abandon, Finish)):
            self.end(one.step, one.ending, one.why)
        elif isinstance(one, PassDeadline):
            self.write(EventKind.DEADLINE, note=one.why)
        else:
            assert isinstance(one, Close)
            self.write(EventKind.CLOSED, note=one.note, data={"outcome": one.outcome.value})

    def run(self, until: Callable[[Incident], bool] = lambda _: False, most: int = 200) -> Driver:
        """Does what is due until nothing is, it is closed, or `until` says so."""
        for _ in range(most):
            if self.incident.closed is not None or until(self.incident):
                return self
            if self.incident.needs_plan:
                self.plan()
                continue
            asked = self.due()
            if not asked:
                return self
            for one in asked:
                self.do(one)
        raise AssertionError(f"still not at an end after {most} rounds: {self.due()}")

    def wait(self, seconds: float) -> Driver:
        self.now += seconds
        return self.run()

    # -- asking

    def order(self) -> list[Step]:
        """Steps in the order in which they were begun."""
        return [one.step for one in self.events if one.kind is EventKind.STEP_BEGUN and one.step is not None]

    def ending(self, step: Step) -> Ending | None:
        state = self.incident.step(step)
        return None if state is None else state.ending
