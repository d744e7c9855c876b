"""An incident's events put together for reading: each step with its actions, who worked on it, what was decided.

The same rows of the journal make the timeline, the list, the JSON and the post-mortem. What they hold may come from
failing machines or a later version: nothing here raises for what an event's data are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rankmuster.model.incident import Decision, Ending, Event, EventKind, Opening, Outcome, Step
from rankmuster.model.plain_json import Bounds, NotPlain, from_plain
from rankmuster.model.verdict import SCHEMA as VERDICT_SCHEMA
from rankmuster.model.verdict import Verdict
from rankmuster.model.verdict_json import verdict_from_plain

BOUNDS = Bounds(text=1 << 16, members=1 << 12)
"""Of what an event's data hold: a decision names nodes of one instance, an opening its pids."""

MOST_WOULD = 20
"""Lines of what an action would have done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """One action of a step. `ending`: None while nobody knows. `found`: a look after a crash showed the result."""

    name: str
    begun_at: float
    ended_at: float | None = None
    ending: Ending | None = None
    note: str = ""
    found: bool = False
    again: int = 0  # intents of it that another runner's death left without a result
    data: Mapping[str, Any]

    @property
    def took(self) -> float | None:
        """Seconds; None while it is not over."""
        return None if self.ended_at is None else max(0.0, self.ended_at - self.begun_at)

    @property
    def would(self) -> tuple[str, ...]:
        """What it would have done, where it is not enabled."""
        return strings(self.data.get("would"))[:MOST_WOULD]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step as it went. `begun_at`: None where it never began. `seconds`: that it may take.

    `ending`: None while it runs, or waits.
    """

    step: Step
    seconds: float | None = None
    begun_at: float | None = None
    deadline_at: float | None = None
    ended_at: float | None = None
    ending: Ending | None = None
    note: str = ""
    data: Mapping[str, Any]
    actions: tuple[Did, ...] = ()

    @property
    def took(self) -> float | None:
        """Seconds; None where it never began or is not over."""
        if self.begun_at is None or self.ended_at is None:
            return None
        return max(0.0, self.ended_at - self.begun_at)

    @property
    def late(self) -> float | None:
        """Seconds that it ended after its deadline; None where it did not."""
        if self.ended_at is None or self.deadline_at is None or self.begun_at is None:
            return None
        return self.ended_at - self.deadline_at if self.ended_at > self.deadline_at else None


@dataclass(frozen=True, slots=True)
class Account:
    """Everything of one incident. `stages`: in the order in which they began; those that never did stand where they
    were skipped, or at the end where they still wait. `events`: all, in order.

    `opening`, `decision`, `verdict`: None where there is none, or it cannot be read.
    """

    id: str
    instance: str
    events: tuple[Event, ...]
    stages: tuple[Stage, ...]
    opening: Opening | None
    decision: Decision | None
    verdict: Verdict | None
    opened_at: float
    total_seconds: float | None
    closed: Event | None
    outcome: Outcome | None

    def of(self, step: Step) -> Stage | None:
        """The last time that step was gone through, or waits."""
        return next((stage for stage in reversed(self.stages) if stage.step is step), None)

    @property
    def waits_for_people(self) -> bool:
        """Whether nothing goes on before an operator approves, and none has yet."""
        stage = self.of(Step.APPROVE)
        if self.closed is not None or stage is None or stage.begun_at is None or stage.ending is not None:
            return False
        return not any(event.at >= stage.begun_at for event in self.all_of(EventKind.APPROVED))

    def all_of(self, kind: EventKind) -> tuple[Event, ...]:
        """The events of a kind, in order."""
        return tuple(event for event in self.events if event.kind is kind)

    @property
    def acted(self) -> tuple[tuple[Stage, Did], ...]:
        """Every action, with its step."""
        return tuple((stage, did) for stage in self.stages for did in stage.actions)


def account(incident: str, events: Iterable[Event], verdict: Verdict | None = None) -> Account:
    """Of the events of one incident, in their order. `verdict`: where the journal itself holds none."""
    rows = tuple(events)
    opened = next((event for event in rows if event.kind is EventKind.OPENED), None)
    opening = _read(Opening, opened.data if opened else None)
    closed = None
    for event in rows:
        closed = event if event.kind is EventKind.CLOSED else None if event.kind is EventKind.REOPENED else closed
    decided = [event for event in rows if event.kind is EventKind.DECIDED]
    totals = [
        number(event.data, "total_seconds") for event in rows if event.kind in (EventKind.OPENED, EventKind.PLANNED)
    ]
    return Account(
        id=incident,
        instance=opening.instance if opening else str(opened.data.get("instance", "")) if opened else "",
        events=rows,
        stages=_stages(rows),
        opening=opening,
        decision=_read(Decision, decided[-1].data if decided else None),
        verdict=_verdict(rows, opening) or verdict,
        opened_at=opened.at if opened else rows[0].at if rows else 0.0,
        total_seconds=next((total for total in totals if total is not None), None),
        closed=closed,
        outcome=_outcome(closed),
    )


def number(data: Mapping[str, Any], key: str) -> float | None:
    """A finite number of an event's data; None for anything else."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def strings(value: object) -> tuple[str, ...]:
    """The texts of a list in an event's data; one text is a list of one."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, (list, tuple)) else ()


def _read(kind: Any, raw: object) -> Any:
    try:
        return from_plain(kind, raw, BOUNDS) if raw else None
    except NotPlain:
        return None


def _verdict(rows: tuple[Event, ...], opening: Opening | None) -> Verdict | None:
    """The newest that the journal holds as a whole, else the one that it was opened with."""
    held = (one for event in reversed(rows) for one in event.data.values() if isinstance(one, Mapping))
    for raw in (*held, opening.verdict if opening else None):
        if isinstance(raw, Mapping) and raw.get("schema") == VERDICT_SCHEMA:
            try:
                return verdict_from_plain(raw)
            except NotPlain:
                continue
    return None


def _outcome(closed: Event | None) -> Outcome | None:
    try:
        return Outcome(str(closed.data.get("outcome"))) if closed else None
    except ValueError:
        return None


def _stages(rows: tuple[Event, ...]) -> tuple[Stage, ...]:
    made: list[Stage] = []
    seconds: dict[Step, float | None] = {}
    planned: tuple[Step, ...] = ()
    begun = 0  # stages that there were when the plan that holds was made
    for event in rows:
        if event.kind is EventKind.PLANNED:
            plan = _plan(event)
            seconds.update(plan)
            planned, begun = tuple(plan), len(made)
        elif event.step is not None:
            _apply(event, event.step, made, seconds)
    gone = {stage.step for stage in made[begun:]}
    return (*made, *(Stage(step=step, seconds=seconds[step], data={}) for step in planned if step not in gone))


def _plan(event: Event) -> dict[Step, float | None]:
    """A plan replaces what waits; what runs and what has ended stays."""
    steps = event.data.get("steps")
    found: dict[Step, float | None] = {}
    for one in steps if isinstance(steps, (list, tuple)) else ():
        if isinstance(one, Mapping):
            try:
                found[Step(str(one.get("step")))] = number(one, "seconds")
            except ValueError:  # a later version's
                continue
    return found


def _apply(event: Event, step: Step, made: list[Stage], planned: Mapping[Step, float | None]) -> None:
    place = next((n for n in range(len(made) - 1, -1, -1) if made[n].step is step and made[n].ending is None), None)
    if place is None:
        made.append(Stage(step=step, seconds=planned.get(step), data={}))
        place = len(made) - 1
    stage = made[place]
    if event.kind is EventKind.STEP_BEGUN:
        begun = stage.begun_at if stage.begun_at is not None else event.at
        stage = replace(stage, begun_at=begun, deadline_at=number(event.data, "deadline_at") or stage.deadline_at)
    elif event.kind is EventKind.STEP_ENDED:
        stage = replace(stage, ended_at=event.at, ending=event.ending, note=event.note, data=event.data)
    elif event.kind in (EventKind.INTENT, EventKind.RESULT) and event.action is not None:
        stage = replace(stage, actions=_acted(stage.actions, event, event.action))
    made[place] = stage


def _acted(actions: tuple[Did, ...], event: Event, name: str) -> tuple[Did, ...]:
    running = next((one for one in actions if one.name == name and one.ended_at is None), None)
    if event.kind is EventKind.INTENT:
        if running is not None:
            return tuple(replace(one, again=one.again + 1) if one is running else one for one in actions)
        return (*actions, Did(name=name, begun_at=event.at, data=event.data))
    if running is None:
        running = Did(name=name, begun_at=event.at, data={})
        actions = (*actions, running)
    done = replace(
        running,
        ended_at=event.at,
        ending=event.ending,
        note=event.note,
        found=event.data.get("found") is True,
        data={**running.data, **event.data},
    )
    return tuple(done if one is running else one for one in actions)
