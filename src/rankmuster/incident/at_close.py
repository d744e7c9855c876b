"""The last look before an incident is closed: what was left behind may have taken effect since.

A gateway that drained late, after traffic was given back, is given traffic back again. What cannot be put right by
repeating something harmless is told to operators, never undone by guesswork.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.incident import as_found
from rankmuster.incident.bounded_call import TICK, Slots, bounded
from rankmuster.incident.budget import Budget
from rankmuster.incident.machine.due import Close
from rankmuster.incident.machine.plan import planned_event
from rankmuster.incident.machine.state import Incident, Planned
from rankmuster.incident.past import Past
from rankmuster.incident.record import Record
from rankmuster.incident.steps import group as groups
from rankmuster.incident.steps import traffic
from rankmuster.incident.tools import ToolRole, Tools
from rankmuster.model.incident import (
    SERVED,
    Ending,
    Event,
    EventKind,
    Fenced,
    GroupState,
    NodeLook,
    Step,
    TrafficLook,
    TrafficState,
)

LATE_PATIENCE = 5.0
"""Seconds that calls which were left behind are waited for, before what they did is looked at."""

LOOK_SECONDS = 2.0
"""Of each look."""

MOST_AGAIN = 3
"""Times that traffic is given back again: what stops it each time is not a late call of ours."""

RIGHT = "put right"
"""How the note of such a plan begins."""


@dataclass(frozen=True, slots=True)
class LastLook:
    """`again`: something was planned to put it right, so it is not closed yet. `said`: what an operator has to know."""

    again: bool = False
    said: tuple[str, ...] = ()


def put_right(
    record: Record,
    close: Close,
    *,
    tools: Tools,
    slots: Slots,
    clock: Clock,
    unix_now: Callable[[], float],
    budget: Budget,
    patience: float,
) -> LastLook:
    """Raises what `Record` raises."""
    incident = record.incident
    if not incident.acted:
        return LastLook()
    late = Deadline.after(patience, clock)
    while slots.unreturned() and not late.passed:
        time.sleep(TICK)
    said = [f"a call has still not come back, and what it does later nobody sees: {one}" for one in slots.unreturned()]
    wrong = _traffic(incident, record.events, tools, clock)
    if wrong and close.outcome in SERVED:
        if sum(1 for one in record.events if one.note.startswith(RIGHT)) < MOST_AGAIN:
            plan = (Planned(Step.RESTORE, (), budget.of(Step.RESTORE), True),)
            event = planned_event(plan, at=unix_now(), by="", budget=budget)
            record.write(EventKind.PLANNED, note=f"{RIGHT}: {'; '.join(wrong)}", data=event.data)
            return LastLook(again=True)
        said.append("traffic was given back several times, and is taken away again by somebody")
    said += wrong
    said += _group(incident, Past(record.events), tools, clock)
    said += _nodes(incident, tools, clock)
    return LastLook(said=tuple(said))


def _traffic(incident: Incident, events: Sequence[Event], tools: Tools, clock: Clock) -> list[str]:
    """Gateways that are not as the incident has left them, as far as it knows. What others had stopped before is
    theirs."""
    if not tools.acts(ToolRole.TRAFFIC):
        return []
    less = (Step.SHED, Step.STOP_TRAFFIC, Step.CUT)
    if not any(one.acted for step in less for one in incident.ran(step)):
        return []
    found = []
    for gateway in tools.traffic:
        before = as_found.found(events, gateway.name)
        if before.stopped:
            continue
        look = bounded(gateway.look, Deadline.after(LOOK_SECONDS, clock), lambda: False).answer
        if not isinstance(look, TrafficLook) or look.state in (TrafficState.UNKNOWN, TrafficState.ABSENT):
            continue
        restored = traffic.is_restored(look, before)
        if not incident.traffic_touched and not restored:
            found.append(f"{gateway.name} was given traffic back, and {traffic.told(look)} now")
        elif incident.traffic_touched and restored:
            found.append(f"{gateway.name} gets traffic although it was not given back here: {traffic.told(look)}")
    return found


def _group(incident: Incident, past: Past, tools: Tools, clock: Clock) -> list[str]:
    group = tools.group
    if group is None or not incident.group_touched or not tools.acts(ToolRole.GROUP):
        return []
    look = groups.look_at(group, Deadline.after(LOOK_SECONDS, clock), lambda: False)
    if incident.group_ended and look.state in groups.LIVING:
        return [f"the group was ended, and runs now: {groups.told(look)}; somebody, or a late start, has started it"]
    started = past.text(Step.START, "incarnation")
    if incident.group_ended or started is None:
        return []
    if look.state is GroupState.ENDED:
        return [f"what was started has ended since: {groups.told(look)}"]
    if look.incarnation not in (None, started):
        return [f"{started} was started, and {look.incarnation} runs now"]
    return []


def _nodes(incident: Incident, tools: Tools, clock: Clock) -> list[str]:
    """Fences that are not known to be there, and are."""
    found = []
    known = {
        str(action.result.get("node"))
        for one in incident.ran(Step.FENCE)
        for action in one.actions
        if action.ending is Ending.DONE
    }
    tried = {
        action.name.rpartition(":")[2]
        for one in incident.ran(Step.FENCE)
        for action in one.actions
        if action.acted and action.ending is not Ending.DONE
    }
    for where in tools.nodes if tools.acts(ToolRole.NODE) else ():
        for node in sorted(tried - known):
            deadline = Deadline.after(LOOK_SECONDS, clock)
            look = bounded(lambda limit, at=where, name=node: at.look(name, limit), deadline, lambda: False).answer  # type: ignore[misc]
            if isinstance(look, NodeLook) and look.fenced is Fenced.OURS and look.incident == incident.id:
                found.append(
                    f"{node} is fenced by this incident although {where.name} had not said so: it stays fenced"
                )
    return found
