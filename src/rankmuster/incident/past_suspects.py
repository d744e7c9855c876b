"""Which nodes transport stalls have suspected lately: one look cannot tell which end of a path it is, two can."""

from __future__ import annotations

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
        decided = [event for event in journal.events(head.id) if event.kind is EventKind.DECIDED]
        for event in reversed(decided):
            try:
                decision = from_plain(Decision, dict(event.data), BOUNDS)
            except NotPlain:
                continue
            day = datetime.fromtimestamp(head.opened_at, timezone.utc)
            for node in decision.suspects:
                found.setdefault(node, f"incident {head.id}, {day:%Y-%m-%d %H:%M} UTC")
            break
    return found
