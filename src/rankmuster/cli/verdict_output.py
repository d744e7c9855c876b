"""A report on a verdict: rendered for a terminal, and on its way to standard output or a file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.output import deliver, say

if TYPE_CHECKING:
    from rich.console import Console

    from rankmuster.model.verdict import Verdict

NARROWEST = 40  # columns; the verdict's table of planes is not readable below

Width = Annotated[
    int | None,
    typer.Option(
        "--width", metavar="COLUMNS", min=NARROWEST, help="Columns for the terminal format; else the screen's."
    ),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colours; the same as NO_COLOR=1.")]


def color_wanted(no_color: bool, output: Path | None) -> bool:
    """Colours for a person at a screen, unless they asked for none (https://no-color.org)."""
    return not no_color and not os.environ.get("NO_COLOR") and output is None and sys.stdout.isatty()


def printed(render: Callable[[Console], None], *, width: int | None, color: bool) -> str:
    """What `render` prints, in memory first: rich ends the process with status 1, "fault", when a pipe breaks under it.

    `width`: columns, None for the screen's.
    """
    import io

    from rich.console import Console

    paper = io.StringIO()
    render(
        Console(
            file=paper,
            width=width or max(shutil.get_terminal_size((100, 24)).columns, NARROWEST),
            force_terminal=color,
            no_color=not color,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )
    )
    return with_newline(paper.getvalue())


def with_newline(text: str) -> str:
    """`text` as whole lines."""
    return text if text.endswith("\n") else text + "\n"


def hand_over(text: str, output: Path | None, verdict: Verdict) -> int:
    """Writes a report to `output`, as `deliver`; beside a file the verdict is said. Returns its exit status."""
    if deliver(text, output):
        say(one_line(verdict))
    return verdict.exit_status


def one_line(verdict: Verdict) -> str:
    """The verdict in one line, for people who wrote the report to a file."""
    from rankmuster.report.inert import plain
    from rankmuster.report.words import accused, class_name, story

    sure = f" ({verdict.confidence.value})" if verdict.confidence else ""
    more = f" - {plain(story(verdict))}" if verdict.summary else ""
    return f"verdict: {class_name(verdict)}{sure}, {verdict.progress.value}, {accused(verdict)}{more}"
