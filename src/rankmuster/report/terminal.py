"""The verdict on a terminal, for a tired person at 3 a.m.: the answer first, then who, why, and what to do.

Everything is printed as `rich.text.Text` or cells of it, so that nothing in a host name or log line is markup. No box
glyphs, and signs beside every colour: it reads the same through a pipe, on a serial console, and without colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rankmuster.model.fault import FaultClass
from rankmuster.model.job import Job
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.model.ranks_text import rank_ranges
from rankmuster.model.verdict import FindingRecord, Verdict
from rankmuster.report import theme
from rankmuster.report.advice import advice
from rankmuster.report.collapse import collapse
from rankmuster.report.inert import plain
from rankmuster.report.rollcall import RollCall, Row, roll_call
from rankmuster.report.words import accused, class_name, clock, story

MAX_ROWS = 24
"""Rows of the roll call: with the verdict above them they fit a terminal of 40 lines."""

MAX_REFERENCES = 3
"""References shown per finding; JSON and HTML have all."""

MAX_LINES = 20
"""Lines per list of findings, steps or files; JSON and HTML have all."""

MIN_ROOM = 20
"""Columns that a text gets beside its head, even on a console too narrow for both."""

NUMBERED = "1."
"""The sign of a list whose order matters."""

HOST_WIDTH = 15
"""A numeric IPv4 address; longer names fold."""


class _Paper:
    """A console that takes foreign text: inert, and in the console's own encoding."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._encoding = console.encoding or "utf-8"

    def text(self, words: object, style: str = "") -> Text:
        shown = plain(words).encode(self._encoding, "backslashreplace").decode(self._encoding)
        return Text(shown, style=style)

    def line(self, *parts: Text, indent: int = 0, whole: bool = False) -> None:
        """One paragraph; `whole`: a single line however long, so that `head -1` has all of it."""
        joined = Text(" ").join(parts)
        if whole:
            self._console.print(joined, soft_wrap=True, highlight=False)
        else:
            self._hang(Text(" " * indent), joined)

    def item(self, sign: str, *parts: Text, style: str = "") -> None:
        """A list item with a hanging indent."""
        self._hang(Text(f"{sign:>3} ", style=style), Text(" ").join(parts))

    def entry(self, columns: Sequence[tuple[Text, int]], words: Text) -> None:
        """A line of a list with columns of fixed width before its words."""
        head = Text()
        for cell, width in columns:
            head.append_text(cell)
            head.append(" " * max(1, width + 1 - cell.cell_len))
        self._hang(head, words)

    def _hang(self, head: Text, words: Text) -> None:
        # wrapped here rather than by a grid, which pads every line to the full width: pipes and diffs see that
        room = max(self._console.width - head.cell_len, MIN_ROOM)
        for number, part in enumerate(words.wrap(self._console, room) or [Text()]):
            part.rstrip()
            start = head if number == 0 else Text(" " * head.cell_len)
            self._console.print(start + part, soft_wrap=True, highlight=False)

    def heading(self, words: str, note: str = "") -> None:
        self._console.print()
        parts = [Text(words.upper(), style="bold")]
        if note:
            parts.append(self.text(note, "dim"))
        self.line(*parts)

    def table(self, table: Table) -> None:
        self._console.print(table, highlight=False)


def _head(paper: _Paper, verdict: Verdict) -> None:
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


def _rank_cell(row: Row) -> str:
    shown = rank_ranges(row.ranks).replace(", ", ",")
    if len(row.ranks) == 1:
        return shown
    parts = shown.split(",")
    return f"{','.join(parts[:3])}{',..' if len(parts) > 3 else ''} ({len(row.ranks)})"


def _hosts_cell(row: Row) -> str:
    if len(row.hosts) > 1:
        return f"{len(row.hosts)} hosts"
    return row.hosts[0] if row.hosts else "-"


def _roll(paper: _Paper, call: RollCall) -> None:
    rows, left = collapse(call.rows, MAX_ROWS)
    hosts = {host for row in rows for host in row.hosts}
    notes = [f"{len(call.rows)} ranks" if len(call.rows) != 1 else "1 rank"]
    if len(hosts) == 1:
        notes.append(
            f"all on host {next(iter(hosts))}" if all(row.hosts for row in rows) else f"host {next(iter(hosts))}"
        )
    if call.home is not None:
        notes.append(f"# in {call.home}")
    paper.heading("Roll call", "; ".join(notes))
    if not rows:
        paper.line(paper.text("no rank is known: no dump, no RAS reply, no list of processes"), indent=1)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", show_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("rank", justify="right", overflow="fold")
    if len(hosts) > 1:
        table.add_column("host", overflow="fold", max_width=HOST_WIDTH)
    for name, right in (("pid", True), ("gpu", True), ("state", False), ("entered", False)):
        table.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for name in ("done", "RAS", "util", "links", "dump"):
        table.add_column(name, justify="right" if name in ("done", "RAS", "util") else "left", overflow="fold")
    for row in rows:
        look = theme.ROLES.get(row.role) if row.role is not None else None
        style = look.terminal if look is not None else ""
        cells = [look.terminal_sign if look is not None else "", _rank_cell(row)]
        if len(hosts) > 1:
            cells.append(_hosts_cell(row))
        done = row.finished
        cells += [
            "-" if row.pid is None else str(row.pid),
            "-" if row.gpu is None else row.gpu,
            row.state,
            "-" if row.entered is None else row.entered.text(call.home),
            "-" if done is None else done.text(call.home).rsplit(" ", 1)[0] if done.op else done.text(call.home),
            row.ras,
            "-" if row.util is None else f"{row.util:.0f}%",
            "-" if row.rate is None else row.link.value,
            row.dump.value,
        ]
        table.add_row(*(paper.text(cell, style) for cell in cells))
    paper.table(table)
    roles = {row.role for row in rows if row.role is not None}
    legend = [f"{look.terminal_sign} {look.word}" for role, look in theme.ROLES.items() if role in roles]
    if left:
        legend.append(f"{left} more ranks are not shown; JSON and HTML have them")
    if legend:
        paper.line(paper.text("; ".join(legend), "dim"))
    for row in rows:
        for note in row.notes:
            paper.line(paper.text(f"rank {_rank_cell(row)}: {note}", "dim"), indent=1)


def _finding(paper: _Paper, finding: FindingRecord, sign: str) -> None:
    shown = [plain(reference, 120) for reference in finding.evidence[:MAX_REFERENCES]]
    more = len(finding.evidence) - len(shown)
    tail = f"[{', '.join(shown)}{f', {more} more' if more > 0 else ''}]" if shown else ""
    parts = [paper.text(finding.statement), paper.text(f"({finding.detector})", "dim")]
    if tail:
        parts.append(paper.text(tail, "dim"))
    paper.item(sign, *parts)


def _list(paper: _Paper, heading: str, lines: Sequence[str], sign: str, note: str = "", style: str = "") -> None:
    if not lines and not note:
        return
    paper.heading(heading, note)
    for number, line in enumerate(lines[:MAX_LINES], start=1):
        paper.item(f"{number}." if sign == NUMBERED else sign, paper.text(line), style=style)
    if len(lines) > MAX_LINES:
        paper.line(paper.text(f"and {len(lines) - MAX_LINES} more; JSON and HTML have them", "dim"), indent=4)


def _findings(paper: _Paper, heading: str, findings: Iterable[FindingRecord], sign: str) -> None:
    found = list(findings)
    if not found:
        return
    paper.heading(heading)
    for finding in found[:MAX_LINES]:
        _finding(paper, finding, sign)
    if len(found) > MAX_LINES:
        paper.line(paper.text(f"and {len(found) - MAX_LINES} more; JSON and HTML have them", "dim"), indent=4)


def _planes(paper: _Paper, verdict: Verdict) -> None:
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
    paper = _Paper(console)
    _head(paper, verdict)
    _roll(paper, roll_call(verdict, job))
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
