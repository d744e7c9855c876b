"""`rankmuster incident approve`: an operator lets a rebuild be done, or says that nothing is to be rebuilt."""

from __future__ import annotations

import time
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.incident_named import (
    IncidentName,
    OperatorName,
    Reason,
    account_of,
    chosen,
    operator,
    reason_of,
    told,
)
from rankmuster.cli.incident_place import JournalPlace, opened
from rankmuster.cli.options import Debug
from rankmuster.cli.status import CommandError, ExitStatus

if TYPE_CHECKING:
    from rankmuster.report.incident_account import Account


class Approved(str, Enum):
    """What may be approved: nothing smaller than a process group is ever rebuilt."""

    PROCESS_GROUP = "process_group"
    NODE = "node"
    NONE = "none"


def approve(
    incident: IncidentName,
    boundary: Annotated[
        Approved | None,
        typer.Option("--boundary", help="What is rebuilt; none: nothing, traffic is given back. Default: as decided."),
    ] = None,
    by: OperatorName = "",
    reason: Reason = "",
    journal: JournalPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Approve what an incident waits for. Its runner goes on at once; where none runs, `incident resume` starts one.

    Exit status: 0 it is written into the journal, 3 nothing was written: there is no such incident, it does not wait
    for an approval, no boundary follows from its verdict and none was named, or bad usage.
    """
    with opened(journal, "approving") as store:
        from rankmuster.model.incident import Event, EventKind

        head = chosen(store, incident)
        found = account_of(store, head)
        _must_wait(found)
        named = _boundary(found, boundary)
        data = {} if boundary is None else {"boundary": boundary.value}
        who = operator(by)
        event = Event(kind=EventKind.APPROVED, at=time.time(), note=reason_of(reason), by=who, data=data)
        store.tell(head.id, event)
    told(f"approved by {who}: incident {head.id} of {head.instance} goes on with boundary {named}")
    if head.lease is None:
        told(f"nobody works on it now; start a runner: rankmuster incident resume {head.id}")
    return ExitStatus.HEALTHY


def _must_wait(found: Account) -> None:
    from rankmuster.incident.machine.state import RESUMABLE
    from rankmuster.model.incident import Ending, EventKind, Step

    if found.closed is not None:
        outcome = found.outcome.value if found.outcome else "closed"
        more = f"; `rankmuster incident resume {found.id}` opens it again" if found.outcome in RESUMABLE else ""
        raise CommandError(f"the incident {found.id} is closed ({outcome}) and waits for nobody{more}")
    waits = found.of(Step.APPROVE)
    if waits is None or waits.begun_at is None or waits.ending is not None:
        running = [stage.step.value for stage in found.stages if stage.begun_at is not None and stage.ending is None]
        ended = (
            f" (approve ended {waits.ending.value})" if waits is not None and isinstance(waits.ending, Ending) else ""
        )
        raise CommandError(
            f"the incident {found.id} does not wait for an approval now{ended}: it is at "
            f"{', '.join(running) or 'no step'}; `rankmuster incident show {found.id}`"
        )
    begun = waits.begun_at
    already = [event for event in found.all_of(EventKind.APPROVED) if event.at >= begun]
    if already:
        raise CommandError(f"the incident {found.id} was approved already, by {already[0].by or 'somebody'}")


def _boundary(found: Account, given: Approved | None) -> str:
    from rankmuster.incident.machine.state import ACTIONABLE

    if given is not None:
        return given.value
    decision = found.decision
    if decision is not None and decision.boundary in ACTIONABLE:
        return str(decision.boundary.value)
    what = f"the decision's boundary is {decision.boundary.value}" if decision else "nothing was decided"
    raise CommandError(
        f"{what}, from which nothing follows to be done: name it, --boundary process_group, node or none"
    )
