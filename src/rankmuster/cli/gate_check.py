"""`rankmuster gate check`: the launch checklist, for people and for CI systems."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.gate_place import CONFIG, GateSettings, checked
from rankmuster.cli.history_place import HistoryPlace
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, say, table_width, write_file
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.model.release import Checklist


class Format(str, Enum):
    """How the checklist is written."""

    TERMINAL = "terminal"
    JSON = "json"
    JUNIT = "junit"
    MARKDOWN = "md"


def check(
    config: GateSettings = Path(CONFIG),
    history: HistoryPlace = "",
    details: Annotated[
        bool, typer.Option("--details", help="Also what was found of items that pass, and the evidence.")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit XML there, for a CI system.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Also write Markdown there, for a summary.")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="terminal: to read; json: rankmuster.gate/1; junit; md.")
    ] = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Go through the launch checklist of a release: what is proven, what is not, and what to do about each item.

    Nothing is changed and nothing is measured: it reads what was recorded, stored and configured.

    Exit status: 0 every item passes or is waived, 1 an item fails, 2 none fails and some cannot be told, 3 bad usage or
    a file that is not what it should be.
    """
    with doing("loading the program"):
        load_numpy()
    _, _, checklist = checked(config, history, time.time())
    with doing("writing the checklist"):
        if junit is not None:
            write_file(junit, text_of(checklist, Format.JUNIT, details))
            say(f"wrote {junit}")
        if markdown is not None:
            write_file(markdown, text_of(checklist, Format.MARKDOWN, details))
            say(f"wrote {markdown}")
        deliver(text_of(checklist, form, details), output)
    return status_of(checklist)


def text_of(checklist: Checklist, form: Format, details: bool) -> str:
    """The checklist in a form."""
    from rankmuster.report import release_junit, release_markdown, release_text

    if form is Format.JSON:
        import json

        from rankmuster.gate.document import TooLong, checklist_plain

        try:
            return json.dumps(checklist_plain(checklist), indent=1, allow_nan=False) + "\n"
        except TooLong as error:
            raise CommandError(str(error)) from error
    if form is Format.JUNIT:
        return release_junit.render(checklist)
    if form is Format.MARKDOWN:
        return release_markdown.render(checklist)
    return release_text.render(checklist, table_width(), details=details)


def status_of(checklist: Checklist) -> int:
    """What fails counts before what cannot be told."""
    if checklist.passed:
        return ExitStatus.HEALTHY
    return ExitStatus.FAULT if checklist.failed else ExitStatus.UNDECIDED
