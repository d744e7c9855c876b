"""`--aligned` on a terminal: numbers down, members that did the same across."""

from __future__ import annotations

from rich.table import Table

from rankmuster.model.flight_report import Aligned, Step
from rankmuster.report.flight.words import MAX_NAME, cell, counted
from rankmuster.report.inert import plain
from rankmuster.report.paper import Paper

MAX_COLUMNS = 6
"""Columns shown: the largest set of members, and the smallest ones beside it."""

MEANS = "- not entered; ? not held by the dump any more; columns are members that did the same throughout"


def print_aligned(paper: Paper, aligned: Aligned) -> None:
    """One group's table."""
    ranks = sum(map(len, aligned.columns))
    shown = f"{plain(aligned.label, MAX_NAME)}, {counted(len(aligned.rows), 'number')} of {counted(ranks, 'member')}"
    paper.heading("Side by side", shown)
    places = list(range(len(aligned.columns)))
    if len(places) > MAX_COLUMNS:
        places = [*places[: MAX_COLUMNS - 1], places[-1]]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", show_edge=False)
    table.add_column("#", justify="right", overflow="fold")
    table.add_column("call", overflow="fold")
    for place in places:
        column = aligned.columns[place]
        table.add_column(f"{'rank' if len(column) == 1 else 'ranks'} {cell(column)}", overflow="fold")
    for row in aligned.rows:
        cells = [_cell(*row.cells[place]) for place in places]
        table.add_row(paper.text(row.sequence), paper.text(row.call), *(paper.text(words) for words in cells))
    paper.table(table)
    paper.line(paper.text(MEANS, "dim"))
    left = len(aligned.columns) - len(places)
    if left:
        paper.line(paper.text(f"{counted(left, 'more column')}; JSON has them, --rank chooses", "dim"))


def _cell(step: Step, other: str | None) -> str:
    return f"{step.value}, but {other}" if other is not None else step.value
