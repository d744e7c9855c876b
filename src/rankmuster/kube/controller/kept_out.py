"""Which new pods get no traffic, since the runbook that had them started did not see them serve."""

from __future__ import annotations

from rankmuster.incident.journal import Journal
from rankmuster.model.incident import SERVED, EventKind, Step


def kept_out(journal: Journal, instance: str, incarnation: str | None) -> str | None:
    """The incident that started this incarnation and did not give it traffic; None where there is none. What somebody
    else has started since is nobody's to keep out. Raises what the journal raises."""
    head = next(iter(journal.incidents(instance=instance, limit=1)), None)
    if head is None or head.closed_at is None or head.outcome in SERVED or incarnation is None:
        return None
    started = [
        event.data.get("incarnation")
        for event in journal.events(head.id)
        if event.kind is EventKind.STEP_ENDED and event.step is Step.START
    ]
    return head.id if incarnation in started else None
