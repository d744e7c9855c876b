"""`rankmuster incident report`: the post-mortem, written from the journal."""

from __future__ import annotations

import time
from enum import Enum
from typing import Annotated

import typer

from rankmuster.cli.incident_named import IncidentName, account_of, chosen
from rankmuster.cli.incident_place import JournalPlace, opened
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, say
from rankmuster.cli.status import ExitStatus
from rankmuster.cli.verdict_output import with_newline


class ReportFormat(str, Enum):
    """How it is written."""

    MARKDOWN = "md"
    HTML = "html"


def report(
    incident: IncidentName,
    form: Annotated[
        ReportFormat,
        typer.Option("--format", help="md: Markdown for a ticket or wiki; html: one page, with a picture."),
    ] = ReportFormat.MARKDOWN,
    output: OutputFile = None,
    journal: JournalPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Write the post-mortem of an incident: the state and what is to do, impact, timeline, root cause with its blind
    planes, what was done and by whom, what was only observed, nodes, what was skipped, and where the evidence lies.

    Exit status: 0 written, 3 there is no such incident, the file cannot be written, or bad usage.
    """
    with opened(journal, "writing the report") as store:
        head = chosen(store, incident)
        found = account_of(store, head)
    lease = head.lease if found.closed is None else ""
    if form is ReportFormat.HTML:
        from rankmuster.report import incident_html as writer
    else:
        from rankmuster.report import incident_markdown as writer  # type: ignore[no-redef]
    if deliver(with_newline(writer.render(found, now=time.time(), lease=lease)), output) and found.closed is None:
        say(f"the incident {head.id} is still open: write it again when it is closed")
    return ExitStatus.HEALTHY
