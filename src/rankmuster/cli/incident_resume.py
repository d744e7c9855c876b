"""`rankmuster incident resume`: an incident goes on, one that was closed without an end is opened again."""

from __future__ import annotations

import time

from rankmuster.cli.incident_named import (
    IncidentName,
    OperatorName,
    Reason,
    SettingsFile,
    account_of,
    chosen,
    operator,
    reason_of,
    settings_of,
    told,
)
from rankmuster.cli.incident_place import JournalPlace, opened, place
from rankmuster.cli.options import Debug
from rankmuster.cli.status import CommandError, ExitStatus


def resume(
    incident: IncidentName,
    config: SettingsFile = None,
    by: OperatorName = "",
    reason: Reason = "",
    journal: JournalPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Let an incident go on: one that was held, failed, aborted or given up is opened again and planned anew.

    With --config its runbook is run here, unless a runner works on it. Without, `incident serve` takes it where it
    follows this instance. What was done before is looked at, and nothing is repeated that is not safe to repeat.

    Exit status: 0 it goes on (with --config: as `incident run`), 3 there is no such incident, it has come to a good
    end, another one of its instance is open, or bad usage.
    """
    if config is not None:
        # what cannot be run is refused before anything is opened again
        journal = journal or settings_of(config).journal or ""
    with opened(journal, "resuming") as store:
        from rankmuster.incident.machine.state import RESUMABLE
        from rankmuster.model.incident import Event, EventKind

        head = chosen(store, incident)
        who = operator(by)
        if head.closed_at is not None:
            if head.outcome not in RESUMABLE:
                outcome = head.outcome.value if head.outcome else "closed"
                raise CommandError(
                    f"the incident {head.id} was closed as {outcome}: there is nothing to go on with; a new fault of "
                    f"{head.instance} is a new incident"
                )
            store.tell(head.id, Event(kind=EventKind.REOPENED, at=time.time(), note=reason_of(reason), by=who))
            told(f"incident {head.id} of {head.instance} is open again, by {who}")
        lease = head.lease
        waits = head.closed_at is None and account_of(store, head).waits_for_people
    if waits:
        told(
            f"it waits for an approval: rankmuster incident approve {head.id} (--boundary process_group, node or none)"
        )
    if lease is not None:
        told(f"{lease} works on it: rankmuster incident show {head.id} --follow")
        return ExitStatus.HEALTHY
    if config is not None:
        from rankmuster.cli.incident_run import resume_with

        return resume_with(config, place(journal), head.id)
    told(
        f"a runner is needed: `rankmuster incident serve` takes it where it follows {head.instance}; or give --config "
        "FILE, and its runbook is run here"
    )
    return ExitStatus.HEALTHY
