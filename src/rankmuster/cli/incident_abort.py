"""`rankmuster incident abort`: an operator takes over; nothing new is begun."""

from __future__ import annotations

import time

from rankmuster.cli.incident_named import (
    IncidentName,
    OperatorName,
    Reason,
    chosen,
    operator,
    reason_of,
    told,
)
from rankmuster.cli.incident_place import JournalPlace, opened
from rankmuster.cli.options import Debug
from rankmuster.cli.status import CommandError, ExitStatus


def abort(
    incident: IncidentName,
    by: OperatorName = "",
    reason: Reason = "",
    journal: JournalPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Abort an incident: nothing new is begun, what runs ends at its next safe point, and the instance is yours.

    Traffic is given back only to a group that was not touched and has not stopped; `incident show` says what is left.

    Exit status: 0 it is written into the journal, 3 there is no such incident, it is closed, or bad usage.
    """
    with opened(journal, "aborting") as store:
        from rankmuster.model.incident import Event, EventKind

        head = chosen(store, incident)
        if head.closed_at is not None:
            outcome = head.outcome.value if head.outcome else "closed"
            raise CommandError(f"the incident {head.id} is closed ({outcome}) already: there is nothing to abort")
        earlier = [event for event in store.events(head.id) if event.kind is EventKind.ABORTED]
        who = operator(by)
        store.tell(head.id, Event(kind=EventKind.ABORTED, at=time.time(), note=reason_of(reason), by=who))
    again = "; it was aborted before, and is not closed yet" if earlier else ""
    told(f"aborted by {who}: nothing new is begun in incident {head.id} of {head.instance}{again}")
    if head.lease is None:
        told(f"nobody works on it now; a runner closes it: rankmuster incident resume {head.id}")
    return ExitStatus.HEALTHY
