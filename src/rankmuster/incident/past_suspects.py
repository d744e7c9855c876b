"""Which nodes transport stalls have suspected lately: one look cannot tell which end of a path it is, two can.

An incident that limits held was one of many at once: that is the fabric, and says nothing of its nodes.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timezone

from rankmuster.incident.journal import Journal
from rankmuster.model.fault import FaultClass
from rankmuster.model.incident import Decision, EventKind
from rankmuster.model.plain_json import Bounds, NotPlain, from_plain

BOUNDS = Bounds(text=1 << 20, members=1 << 16)

MOST = 2_000
"""Incidents that are looked through, newest first."""


def suspected_before(journal: Journal, incident: str, now: float, again_seconds: float) -> dict[str, str]:
    """Node -> "incident X, DATE", for transport stalls of all instances within `again_seconds`, this incident's left
    out. What raised is what the journal raises; a decision that cannot be read suspects nobody."""
    found: dict[str, str] = {}
    for head in journal.incidents(limit=MOST):
        if head.opened_at < now - again_seconds:
            break
        if head.id == incident or head.class_ is not FaultClass.TRANSPORT_STALL:
            continue
        day = datetime.fromtimestamp(head.opened_at, timezone.utc)
        decisions = _decisions(journal, head.id)
        if not decisions or any(one.waits_for_limits for one in decisions):
            continue
        for node in decisions[-1].suspects:
            found.setdefault(node, f"incident {head.id}, {day:%Y-%m-%d %H:%M} UTC")
    return found


def _decisions(journal: Journal, incident: str) -> list[Decision]:
    """Those that can be read, oldest first."""
    found = []
    for event in journal.events(incident):
        if event.kind is EventKind.DECIDED:
            with contextlib.suppress(NotPlain):
                found.append(from_plain(Decision, dict(event.data), BOUNDS))
    return found
