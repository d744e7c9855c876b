"""The process group of an incident, as several steps look at it: which incarnation is meant, and what runs now."""

from __future__ import annotations

from collections.abc import Callable

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import Shown, Sight
from rankmuster.incident.actuators import Group
from rankmuster.incident.bounded_call import bounded
from rankmuster.model.incident import GroupLook, GroupState, Opening

LIVING = (GroupState.STARTING, GroupState.RUNNING, GroupState.PARTLY, GroupState.ENDING)
"""States with processes."""

BY_OTHERS = "by_others"
"""Key of a START's data: what runs was started by somebody else meanwhile, and is not ours to end."""

NO_GROUP = "no actuator is configured that ends and starts the process group: it has to be done by hand"


def told(look: GroupLook) -> str:
    """A look in words."""
    what = f"the group is {look.state.value}"
    if look.incarnation is not None:
        what += f", incarnation {look.incarnation}"
    if look.exit_status is not None:
        what += f", exit status {look.exit_status}"
    return f"{what} ({look.note})" if look.note else what


def look_at(group: Group, deadline: Deadline, given_up: Callable[[], bool]) -> GroupLook:
    """A look that returns in time and raises nothing; UNKNOWN where none came."""
    called = bounded(group.look, deadline, given_up)
    if isinstance(called.answer, GroupLook):
        return called.answer
    why = "it raised " + called.raised if called.raised is not None else "it did not answer in time"
    return GroupLook(state=GroupState.UNKNOWN, note=f"{group.name}: {why}")


def changed(opening: Opening, look: GroupLook) -> str | None:
    """Why what runs is not what the incident is about; None where it is, or where that cannot be told.

    Names of incarnations may come from two sources (the watch, a scheduler) that call the same start differently: then
    a common process, or a start before the fault was detected, says that it is the same.
    """
    if look.state not in LIVING or look.incarnation is None or opening.incarnation is None:
        return None
    if look.incarnation == opening.incarnation or set(look.pids) & set(opening.pids):
        return None
    since = opening.since if opening.since is not None else opening.at
    if not look.exact and look.at is not None and look.at <= since:
        return None
    return (
        f"incarnation {look.incarnation} runs now; the incident is about {opening.incarnation}, which is gone: what "
        "was seen of that one says nothing of this one"
    )


def is_gone(look: GroupLook, incarnation: str | None) -> Sight:
    """Whether that incarnation has ended."""
    data = {"incarnation_seen": look.incarnation}
    if look.state is GroupState.ENDED:
        return Sight(Shown.HOLDS, told(look), data)
    if look.state is GroupState.UNKNOWN:
        return Sight(Shown.UNKNOWN, told(look), data)
    if incarnation is not None and look.incarnation is not None and look.incarnation != incarnation:
        return Sight(Shown.HOLDS, f"{incarnation} is gone; {told(look)}", data)
    return Sight(Shown.NOT, told(look), data)


def is_started(look: GroupLook, after: str | None, operation: str) -> Sight:
    """Whether an incarnation other than `after` runs, or is being started."""
    if look.state is GroupState.UNKNOWN:
        return Sight(Shown.UNKNOWN, told(look))
    ours = look.operation == operation
    if look.state in (GroupState.STARTING, GroupState.RUNNING) and (ours or look.incarnation != after):
        if not ours and (look.incarnation is None or after is None):
            return Sight(Shown.UNKNOWN, f"whether it is a new one cannot be told: {told(look)}")
        data: dict[str, object] = {"incarnation": look.incarnation}
        if look.operation is not None and not ours:
            data[BY_OTHERS] = True
        return Sight(Shown.HOLDS, told(look), data)
    if ours and look.state is GroupState.ENDED:
        # started by this very action, and ended since: a second start would hide that it does not come up
        return Sight(
            Shown.HOLDS, f"it was started, and has ended since: {told(look)}", {"incarnation": look.incarnation}
        )
    return Sight(Shown.NOT, told(look))
