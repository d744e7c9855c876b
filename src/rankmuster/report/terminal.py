"""The verdict on a terminal, for a tired person at 3 a.m.: the answer first, then who, why, and what to do.

Everything is printed as `rich.text.Text` or cells of it, so that nothing in a host name or log line is markup. No box
glyphs, and signs beside every colour: it reads the same through a pipe, on a serial console, and without colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from rankmuster.model.fault import FaultClass
from rankmuster.model.job import Job
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.model.ranks_text import rank_ranges
from rankmuster.model.verdict import FindingRecord, Verdict
from rankmuster.report import theme
from rankmuster.report.advice import advice
from rankmuster.report.inert import plain
from rankmuster.report.paper import Paper
from rankmuster.report.rollcall import roll_call
from rankmuster.report.terminal_roll import print_roll
from rankmuster.report.words import accused, class_name, clock, story

MAX_REFERENCES = 3
"""References shown per finding; JSON and HTML have all."""

MAX_LINES = 20
"""Lines per list of findings, steps or files; JSON and HTML have all."""

NUMBERED = "1."
"""The sign of a list whose order matters."""


def _head(paper: Paper, verdict: Verdict) -> None:
    tone = theme.TONES[verdict.class_].terminal
    confidence = verdict.confidence.value if verdict.confidence is not None else "no confidence given"
    paper.line(
        paper.text(f"{class_name(verdict)}:", tone),
        paper.text(accused(verdict) + ";", "bold"),
        paper.text(f"{confidence}; progress {verdict.progress.value}"),
        whole=True,
    )
    if verdict.summary:
        paper.line(paper.text(story(verdict)))
    facts = [f"instance {verdict.instance}" if verdict.instance else "instance unknown"]
    if verdict.phase is not None:
        facts.append(f"phase {verdict.phase.value}")
    if verdict.scope is not None:
        facts.append(f"scope {verdict.scope.value}")
    window = verdict.window
    if window.fault_at is not None:
        facts.append(f"fault at {clock(window.fault_at, date=True)}")
    if window.start is not None or window.end is not None:
        facts.append(f"evidence {clock(window.start)} to {clock(window.end)}")
    paper.line(paper.text(", ".join(facts), "dim"))
    first = verdict.first_divergence
    if first is not None:
        number = "" if first.sequence is None else f"#{first.sequence}"
        words = f"first divergence: {first.group or 'unnamed group'}{number} {first.op or 'unknown operation'}"
        if first.missing:
            words += f"; missing {rank_ranges(first.missing)}"
        if first.entered:
            words += f"; entered {rank_ranges(first.entered)}"
        paper.line(paper.text(words))


def _finding(paper: Paper, finding: FindingRecord, sign: str) -> None:
    shown = [plain(reference, 120) for reference in finding.evidence[:MAX_REFERENCES]]
    more = len(finding.evidence) - len(shown)
    tail = f"[{', '.join(shown)}{f', {more} more' if more > 0 else ''}]" if shown else ""
    parts = [paper.text(finding.statement), paper.text(f"({finding.detector})", "dim")]
    if tail:
        parts.append(paper.text(tail, "dim"))
    paper.item(sign, *parts)


def _list(paper: Paper, heading: str, lines: Sequence[str], sign: str, note: str = "", style: str = "") -> None:
    if not lines and not note:
        return
    paper.heading(heading, note)
    for number, line in enumerate(lines[:MAX_LINES], start=1):
        paper.item(f"{number}." if sign == NUMBERED else sign, paper.text(line), style=style)
    if len(lines) > MAX_LINES:
        paper.line(paper.text(f"and {len(lines) - MAX_LINES} more; JSON and HTML have them", "dim"), indent=4)


def _findings(paper: Paper, heading: str, findings: Iterable[FindingRecord], sign: str) -> None:
    found = list(findings)
    if not found:
        return
    paper.heading(heading)
    for finding in found[:MAX_LINES]:
        _finding(paper, finding, sign)
    if len(found) > MAX_LINES:
        paper.line(paper.text(f"and {len(found) - MAX_LINES} more; JSON and HTML have them", "dim"), indent=4)


def _planes(paper: Paper, verdict: Verdict) -> None:
    if not verdict.planes:
        return
    paper.heading("Planes")
    order = list(PlaneState)
    for record in sorted(verdict.planes, key=lambda record: order.index(record.state)):
        look = theme.PLANES[record.state]
        columns = (
            (Text(f"  {look.terminal_sign}", style=look.terminal), 3),
            (Text(record.plane.value), max(len(plane.value) for plane in Plane)),
            (Text(look.word, style=look.terminal), max(len(state.value) for state in PlaneState)),
        )
        paper.entry(columns, paper.text(record.note))


def render(verdict: Verdict, job: Job, console: Console) -> None:
    """Print the whole report on `console`; at 80 columns, piped or not."""
    paper = Paper(console)
    _head(paper, verdict)
    print_roll(paper, roll_call(verdict, job))
    _findings(paper, "Why", (finding for finding in verdict.findings if finding.led_to_verdict), "+")
    _findings(paper, "Also seen", (finding for finding in verdict.findings if not finding.led_to_verdict), "-")
    _list(paper, "What would decide", verdict.would_decide, "?")
    todo = advice(verdict, job)
    _list(paper, "Save now", todo.save, "-", "before anything is ended" if todo.save else "")
    if todo.rebuild or verdict.class_ is not FaultClass.HEALTHY:
        _list(paper, "Rebuild", todo.rebuild, NUMBERED, todo.rebuild_what)
    _list(paper, "Do not", todo.do_not, "x", style=theme.TONES[FaultClass.COLLECTIVE_DESYNC].terminal)
    _planes(paper, verdict)
    _list(paper, "Damaged", verdict.problems, "!")
    _list(paper, "Unread", verdict.unread, "-", "no reader knows these files" if verdict.unread else "")
