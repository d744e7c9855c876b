"""An admission on a terminal: the answer first, then why, then how each regime stands and what was checked.

Checks that passed are told in one line a group, so that what needs attention fits on the screen; the others are told
with what to do. No box glyphs, and signs beside every colour.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from rankmuster.model.admission import AdmissionRecord, Check, CheckState, Decision
from rankmuster.report.admission_words import (
    DECISIONS,
    GROUPS,
    MEANINGS,
    STANDINGS,
    STATES,
    class_words,
    compared_words,
    level_words,
    nodes_name,
    of_group,
    regime_words,
)
from rankmuster.report.inert import plain
from rankmuster.report.paper import Paper
from rankmuster.report.theme import Look
from rankmuster.report.words import clock, span

MOST_REASONS = 12
"""Reasons shown; JSON and HTML have all."""

MOST_NOTE = 600
"""Characters of one note shown: why a hash is unknown may name a dozen facts, and what to do stands at the end."""

NARROW = 72
"""Columns below which there is no room for words beside the columns."""

STATE_ROOM = 8
NAME_ROOM = 16


def render(record: AdmissionRecord, console: Console) -> None:
    """Print the whole answer; at 80 columns or fewer, piped or not."""
    paper = Paper(console)
    look = DECISIONS[record.decision]
    first = record.reasons[0] if record.reasons else MEANINGS[record.decision]
    paper.line(
        paper.text(f"{look.word.upper()}:", look.terminal),
        paper.text(f"{nodes_name(record)}:", "bold"),
        paper.text(plain(first, MOST_NOTE)),
        whole=True,
    )
    paper.line(paper.text(f"{MEANINGS[record.decision]}; compared with {compared_words(record)}", "dim"))
    facts = [
        f"profile {record.profile}",
        f"class {class_words(record)}",
        f"{len(record.runs)} run{'s' if len(record.runs) != 1 else ''}"
        + (f", {record.retests} of them re-tests" if record.retests else ""),
        f"{clock(record.started_at, date=True)}, {span(max(record.ended_at - record.started_at, 0.0))}",
    ]
    paper.line(paper.text("; ".join(facts), "dim"))
    _reasons(paper, record)
    _regimes(paper, record)
    _checks(paper, record)
    if record.notes:
        paper.heading("Notes")
        for note in record.notes:
            paper.item("-", paper.text(plain(note, MOST_NOTE)))
    paper.line(paper.text(f"record {record.hash}", "dim"), whole=True)


def _reasons(paper: Paper, record: AdmissionRecord) -> None:
    if record.decision is Decision.PASS or len(record.reasons) < 2:
        return
    paper.heading("Why")
    for number, reason in enumerate(record.reasons[:MOST_REASONS], start=1):
        paper.item(f"{number}.", paper.text(plain(reason, MOST_NOTE)))
    if len(record.reasons) > MOST_REASONS:
        paper.line(
            paper.text(f"and {len(record.reasons) - MOST_REASONS} more; JSON and HTML have them", "dim"), indent=4
        )


def _regimes(paper: Paper, record: AdmissionRecord) -> None:
    if not record.judgements:
        return
    paper.heading("Regimes")
    room = max(len(regime_words(judged)) for judged in record.judgements)
    for judged in record.judgements:
        look = STANDINGS[judged.standing]
        name = regime_words(judged)
        words = paper.text(level_words(judged) or judged.reason)
        _row(paper, look, (paper.text(name), room), (Text(look.word, style=look.terminal), 10), words)


def _checks(paper: Paper, record: AdmissionRecord) -> None:
    for group, title in GROUPS.items():
        checks = of_group(record.checks, group)
        checks = [check for check in checks if check.name != "regime" or check.state is not CheckState.PASS]
        if not checks:
            continue
        passed = [check for check in checks if check.state is CheckState.PASS]
        shown = [check for check in checks if check.state is not CheckState.PASS and check.name != "regime"]
        if not passed and not shown:
            continue
        paper.heading(title)
        for check in shown:
            _check(paper, check)
        if passed:
            look = STATES[CheckState.PASS]
            names = ", ".join(dict.fromkeys(check.name for check in passed))
            _row(paper, look, (Text(look.word, style=look.terminal), STATE_ROOM), paper.text(names))


def _check(paper: Paper, check: Check) -> None:
    look = STATES[check.state]
    said = check.statement if check.subject == "the node" else f"{check.subject}: {check.statement}"
    state = (Text(look.word, style=look.terminal), STATE_ROOM)
    _row(paper, look, state, (paper.text(check.name), NAME_ROOM), paper.text(said))
    if check.advice:
        indent = 4 + STATE_ROOM + 1 if paper.width >= NARROW else 4
        paper.line(paper.text(f"-> {check.advice}", "dim"), indent=indent)


def _row(paper: Paper, look: Look, *cells: tuple[Text, int] | Text) -> None:
    """Columns and then words; on a narrow screen one after the other, since words beside columns have no room."""
    columns = [cell for cell in cells if isinstance(cell, tuple)]
    words = [cell for cell in cells if isinstance(cell, Text)]
    if paper.width < NARROW:
        paper.item(look.terminal_sign, *(text for text, _ in columns), *words, style=look.terminal)
        return
    head = (Text(f"  {look.terminal_sign}", style=look.terminal), 3)
    paper.entry((head, *columns), Text(" ").join(words))
