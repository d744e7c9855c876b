"""`rankmuster diagnose`: evidence in, verdict out."""

from __future__ import annotations

import os
import shutil
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.gc_off import gc_off
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import say, write_file, write_stdout
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.model.job import Job
    from rankmuster.model.verdict import Verdict

NARROWEST = 40  # columns; the verdict's table of planes is not readable below


class Format(str, Enum):
    """How the verdict is written."""

    TERMINAL = "terminal"
    JSON = "json"
    HTML = "html"
    PERFETTO = "perfetto"


def diagnose(
    given: Annotated[
        str,
        # text, since an empty Path is the folder one stands in, and typer has its own words for an unreadable one
        typer.Argument(metavar="PATH", help="A folder of evidence, an archive of one, or a single file."),
    ],
    form: Annotated[
        Format, typer.Option("--format", help="terminal: to read; json: the schema; html: one page; perfetto: a trace.")
    ] = Format.TERMINAL,
    output: OutputFile = None,
    width: Annotated[
        int | None,
        typer.Option(
            "--width", metavar="COLUMNS", min=NARROWEST, help="Columns for the terminal format; else the screen's."
        ),
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours; the same as NO_COLOR=1.")] = False,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Say what is wrong with an instance, who is the culprit, and what must be rebuilt.

    PATH holds what an operator has: Flight Recorder dumps, RAS replies, logs, kernel logs, GPU counters, engine
    metrics, in any layout and with any names. Files are told apart by their content. Nothing is sent, started or
    changed, and the same evidence gives the same verdict on any machine.

    Exit status: 0 healthy, 1 a fault was found, 2 the evidence does not decide or nothing could see, 3 no answer
    (bad usage, missing, empty or unreadable input).
    """
    if not given:
        raise CommandError("PATH is empty (a variable that is not set?); name a folder of evidence, or . for this one")
    path = Path(given)
    with gc_off():
        verdict, job = _verdict_of(path)
    with doing(f"writing the verdict on {path} as {form.value}"):
        text = _render(form, verdict, job, width=width, color=color_wanted(no_color, output))
    if output is None or str(output) == "-":
        write_stdout(text)
    else:
        write_file(output, text)
        say(f"wrote {output}")
        say(one_line(verdict))
    return verdict.exit_status


def _verdict_of(path: Path) -> tuple[Verdict, Job]:
    with doing("loading the program"):
        load_numpy()
        from rankmuster.cli.reading import read
    evidence = read(path)
    with doing(f"diagnosing {path}"):
        from rankmuster.diagnose.run import MixedInstances
        from rankmuster.diagnose.run import diagnose as decide

        try:
            diagnosis = decide(evidence)
        except MixedInstances as error:
            raise CommandError(str(error)) from error
    return diagnosis.verdict, diagnosis.job


def _render(form: Format, verdict: Verdict, job: Job, *, width: int | None, color: bool) -> str:
    if form is Format.JSON:
        from rankmuster.report import json_form

        return _with_newline(json_form.render(verdict))
    if form is Format.HTML:
        from rankmuster.report import html

        return _with_newline(html.render(verdict, job))
    if form is Format.PERFETTO:
        from rankmuster.report import perfetto

        return _with_newline(perfetto.render(verdict, job))
    return _terminal(verdict, job, width=width, color=color)


def _terminal(verdict: Verdict, job: Job, *, width: int | None, color: bool) -> str:
    """Rendered into memory first: rich ends the process with status 1, "fault", when a pipe breaks under it."""
    import io

    from rich.console import Console

    from rankmuster.report import terminal

    console = Console(
        file=io.StringIO(),
        width=width or max(shutil.get_terminal_size((100, 24)).columns, NARROWEST),
        force_terminal=color,
        no_color=not color,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    terminal.render(verdict, job, console)
    return _with_newline(console.file.getvalue())  # type: ignore[attr-defined]  # it is the StringIO above


def _with_newline(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def color_wanted(no_color: bool, output: Path | None) -> bool:
    """Colours for a person at a screen, unless they asked for none (https://no-color.org)."""
    return not no_color and not os.environ.get("NO_COLOR") and output is None and sys.stdout.isatty()


def one_line(verdict: Verdict) -> str:
    """The verdict in one line, for people who wrote the report to a file."""
    from rankmuster.report.inert import plain
    from rankmuster.report.words import accused, class_name, story

    sure = f" ({verdict.confidence.value})" if verdict.confidence else ""
    more = f" - {plain(story(verdict))}" if verdict.summary else ""
    return f"verdict: {class_name(verdict)}{sure}, {verdict.progress.value}, {accused(verdict)}{more}"
