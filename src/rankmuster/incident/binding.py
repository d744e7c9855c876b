"""Which incarnation an incident is about, looked at before anything is planned: every action is bound to it."""

from __future__ import annotations

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.incident.past import BOUND, BOUND_NODES, Past
from rankmuster.incident.record import Record
from rankmuster.incident.steps import group as groups
from rankmuster.incident.tools import Tools
from rankmuster.model.incident import EventKind, GroupLook, GroupState, Opening, Outcome

LOOK_SECONDS = 3.0


def objection(opening: Opening, tools: Tools, clock: Clock) -> str | None:
    """Why nothing may be done: another incarnation runs by now."""
    look = _look(tools, clock)
    why = groups.changed(opening, look) if look is not None else None
    return None if why is None else f"nothing was touched: {why}"


def bind(record: Record, tools: Tools, clock: Clock) -> bool:
    """Writes which one it is, once. False where the incident was closed instead. Raises what `Record` raises."""
    if Past(record.events).is_bound:
        return True
    opening = record.incident.opening
    look = _look(tools, clock)
    why = groups.changed(opening, look) if look is not None else None
    if why is not None:
        note = f"nothing was touched: {why}"
        record.write(EventKind.CLOSED, note=note, data={"outcome": Outcome.RESTORED.value})
        return False
    known = look.incarnation if look is not None and look.state is not GroupState.UNKNOWN else None
    bound = known or opening.incarnation
    words = groups.told(look) if look is not None else "there is no actuator for the process group"
    nodes = dict(look.nodes) if look is not None and known is not None else {}
    data = {BOUND: bound, BOUND_NODES: nodes} if nodes else {BOUND: bound}
    record.write(EventKind.NOTED, note=f"bound to incarnation {bound or 'unknown'}: {words}", data=data)
    return True


def _look(tools: Tools, clock: Clock) -> GroupLook | None:
    if tools.group is None:
        return None
    return groups.look_at(tools.group, Deadline.after(LOOK_SECONDS, clock), lambda: False)
