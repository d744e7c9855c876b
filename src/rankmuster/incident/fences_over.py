"""Fences of earlier incidents that limits still count and that are over: never made, lifted by people, taken by others.

Nobody tells the journal when an operator repairs a node and lets it in by hand. So it is looked at before limits are
asked for one more; what cannot be seen goes on counting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.actuators import Node
from rankmuster.incident.bounded_call import bounded
from rankmuster.model.incident import Ending, Event, EventKind, Fenced, NodeLook, Step, Use

PLACED = (Step.FENCE, Step.SETTLE)

NEVER_MADE = (Ending.OBSERVED, Ending.SKIPPED, Ending.REFUSED)
"""Endings of an action that has not touched the node."""


def may_hold(events: Sequence[Event], node: str) -> tuple[str, ...]:
    """Names of the places at which that incident has fenced the node, or may have, and has not lifted it since."""
    places: dict[str, bool] = {}
    for one in events:
        if one.step not in PLACED or one.kind not in (EventKind.INTENT, EventKind.RESULT) or not one.action:
            continue
        place, _, rest = one.action.partition(":")
        verb, _, subject = rest.partition(":")
        if subject != node:
            continue
        if verb == "lift":
            places[place] = places.get(place, False) and one.ending is not Ending.DONE
        elif one.kind is EventKind.INTENT:
            places[place] = bool(one.data.get("enabled", True))
        else:
            places[place] = one.ending not in NEVER_MADE and one.data.get("others") is not True
    return tuple(place for place, holds in places.items() if holds)


def is_over(use: Use, events: Sequence[Event], places: Mapping[str, Node], deadline: Deadline) -> bool:
    """`events`: of the incident that asked for it, which is closed. `places`: where nodes are kept from work, by name.

    A place that this instance does not have, or that does not answer in time, may hold it still.
    """
    for name in may_hold(events, use.subject):
        where = places.get(name)
        if where is None or deadline.passed:
            return False

        def look(limit: Deadline, at: Node = where) -> NodeLook:
            return at.look(use.subject, limit)

        seen = bounded(look, deadline, lambda: False).answer
        if not isinstance(seen, NodeLook) or seen.fenced is Fenced.UNKNOWN:
            return False
        if seen.fenced is Fenced.OURS and seen.incident in (None, use.incident):
            return False
    return True
