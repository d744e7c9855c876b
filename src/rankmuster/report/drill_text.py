"""A drill's score card on a terminal: the answer first, then each number beside its bar, then every run."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rankmuster.model.drill_card import ScoreCard
from rankmuster.model.drill_run import DrillRun
from rankmuster.report import drill_words as words
from rankmuster.report.inert import inert
from rankmuster.report.paper import Paper

MOST_REASONS = 12
"""Reasons shown; JSON and Markdown have all."""
WIDE = 120
"""Columns from which the runs stand in a table: below, its cells would be folded in the middle of words."""
MOST_NOTE = 600
"""Characters of one remark: the last words of a program that broke may be a page."""


def render(card: ScoreCard, console: Console) -> None:
    """Print the whole card."""
    paper = Paper(console)
    look = words.answer(card)
    reasons = card.reasons
    paper.line(
        paper.text(f"{look.word.upper()}:", look.terminal),
        paper.text(inert(words.headline(card)), "bold"),
        whole=True,
    )
    paper.line(paper.text(inert(words.machine_words(card)), "dim"))
    paper.listing("Why", [inert(reason, MOST_NOTE) for reason in reasons], "-", MOST_REASONS)
    paper.heading("Numbers")
    for bar in words.bars(card):
        sign = {True: words.RIGHT, False: words.WRONG, None: words.LEFT_OUT}[bar.held]
        more = f"; {bar.more}" if bar.more else ""
        columns = [(Text(f"{sign.terminal_sign:>3}", style=sign.terminal), 3), (paper.text(bar.name), 24)]
        paper.entry([*columns, (paper.text(bar.value), 18)], paper.text(f"wanted: {bar.wanted}{more}"))
    for title, kind in (("Faults", "fault"), ("Controls", "control"), ("Left out", "left_out")):
        runs = [run for run in card.runs if run.kind == kind]
        if runs:
            paper.heading(title)
            _rows(paper, runs)


def _rows(paper: Paper, runs: list[DrillRun]) -> None:
    if runs[0].kind == "fault" and paper.width >= WIDE:
        _table(paper, runs)
        for run in runs:
            if words.remarks(run):
                _entry(paper, run, _remarks(run))
        return
    for run in runs:
        said = [words.sentence(run)] if run.kind == "fault" else []
        _entry(paper, run, "; ".join((*said, *[one for one in [_remarks(run)] if one])) or words.QUIET)


def _table(paper: Paper, runs: list[DrillRun]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in words.HEAD:
        table.add_column(name, justify="right" if name.endswith(" s") else "left", overflow="fold")
    for run in runs:
        look = words.look_of(run)
        sign = Text(f"{look.terminal_sign:>3}", style=look.terminal)
        table.add_row(sign, *(paper.text(inert(cell)) for cell in words.cells(run)))
    paper.table(table)


def _entry(paper: Paper, run: DrillRun, said: str) -> None:
    look = words.look_of(run)
    columns = [(Text(f"{look.terminal_sign:>3}", style=look.terminal), 3), (paper.text(inert(run.name)), 18)]
    paper.entry(columns, paper.text(inert(said)))


def _remarks(run: DrillRun) -> str:
    return "; ".join(inert(one, MOST_NOTE) for one in words.remarks(run))
