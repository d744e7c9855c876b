"""`rankmuster diagnose`: evidence in, verdict out."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.gc_off import gc_off
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, doing
from rankmuster.cli.verdict_output import NoColor, Width, color_wanted, hand_over, printed, with_newline

if TYPE_CHECKING:
    from rankmuster.model.job import Job
    from rankmuster.model.verdict import Verdict


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
    width: Width = None,
    no_color: NoColor = False,
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
    return hand_over(text, output, verdict)


def _verdict_of(path: Path) -> tuple[Verdict, Job]:
    with doing("loading the program"):
        load_numpy()
        from rankmuster.cli.reading import examined, read
    diagnosis = examined(str(path), read(path)).diagnosis
    return diagnosis.verdict, diagnosis.job


def _render(form: Format, verdict: Verdict, job: Job, *, width: int | None, color: bool) -> str:
    if form is Format.JSON:
        from rankmuster.report import json_form

        return with_newline(json_form.render(verdict))
    if form is Format.HTML:
        from rankmuster.report import html

        return with_newline(html.render(verdict, job))
    if form is Format.PERFETTO:
        from rankmuster.report import perfetto

        return with_newline(perfetto.render(verdict, job))
    from rankmuster.report import terminal

    return printed(lambda console: terminal.render(verdict, job, console), width=width, color=color)
