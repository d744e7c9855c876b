"""`rankmuster incident show`: one incident, and with `--follow` as it goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.incident_list import Form, Format
from rankmuster.cli.incident_named import IncidentName, account_of, chosen
from rankmuster.cli.incident_place import JournalPlace, opened
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, write_stdout
from rankmuster.cli.status import CommandError, ExitStatus
from rankmuster.cli.verdict_output import NoColor, Width, color_wanted, printed
from rankmuster.model.incident import SERVED

if TYPE_CHECKING:
    from rankmuster.model.incident import Step
    from rankmuster.report.incident_account import Account
    from rankmuster.store.journal import Journal

POLL_SECONDS = 0.5
"""Between two looks at the journal."""


def show(
    incident: IncidentName,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until it is closed.")] = False,
    journal: JournalPlace = "",
    form: Form = Format.TERMINAL,
    output: OutputFile = None,
    width: Width = None,
    no_color: NoColor = False,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Show an incident: what is the state now and what is to do, then each step with its deadline, how long it took,
    how it ended and what it left.

    Exit status: 0 it is closed and the instance has its traffic back, 1 it is closed otherwise, 2 it is open, or was
    only observed, 3 there is no such incident, or bad usage. With --follow --format json each event is a line of JSON.
    """
    if follow and output is not None:
        raise CommandError("--follow writes as things happen, and --output a whole file: give one of them")
    with opened(journal, "showing the incident") as store:
        head = chosen(store, incident)
        found = account_of(store, head)
        if follow and form is Format.JSON:
            from rankmuster.report.incident_json import event_line

            write_stdout("".join(event_line(event) for event in found.events))
        else:
            text = _text(found, form, head.lease, width=width, color=color_wanted(no_color, output))
            deliver(text, output)
        if follow and found.closed is None:
            found = _follow(store, found, form)
    return status_of(found)


def status_of(found: Account) -> int:
    """How it stands, as an exit status."""
    from rankmuster.model.incident import Outcome

    if found.closed is None or found.outcome is Outcome.OBSERVED:
        return ExitStatus.UNDECIDED
    well = found.outcome in SERVED
    return ExitStatus.HEALTHY if well else ExitStatus.FAULT


def _text(found: Account, form: Format, lease: str | None, *, width: int | None, color: bool) -> str:
    now = time.time()
    held = lease if found.closed is None else ""
    if form is Format.JSON:
        from rankmuster.report import incident_json

        return incident_json.render(found, now=now, lease=held)
    from rankmuster.report import incident_text

    return printed(lambda console: incident_text.render(found, console, now=now, lease=held), width=width, color=color)


def _follow(store: Journal, found: Account, form: Format) -> Account:
    """Until it is closed; what has come in between is written line by line."""
    from rankmuster.report.incident_account import account
    from rankmuster.report.incident_event_text import event_text
    from rankmuster.report.incident_json import event_line
    from rankmuster.report.incident_standing import standing

    events = list(found.events)
    said: dict[Step | None, str] = {}
    while found.closed is None:
        time.sleep(POLL_SECONDS)
        try:
            new = store.events(found.id, events[-1].sequence if events else 0)
        except KeyError:
            raise CommandError(f"the incident {found.id} was removed from {store.name} meanwhile") from None
        if not new:
            continue
        events += new
        lines = []
        for one in new:
            lines.append(event_line(one) if form is Format.JSON else event_text(one, said.get(one.step, "")))
            said[one.step] = one.note
        waited = found.waits_for_people
        found = account(found.id, events, found.verdict)
        if form is Format.TERMINAL and (found.closed is not None or (found.waits_for_people and not waited)):
            told = standing(found, time.time())
            lines += [f"{line}\n" for line in (told.state, *(f"- {todo}" for todo in told.todo))]
        write_stdout("".join(lines))
    return found
