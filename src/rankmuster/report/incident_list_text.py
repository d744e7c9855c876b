"""Incidents as a table for a terminal: the open ones catch the eye, the newest first."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rankmuster.model.incident import Breaker, IncidentHead
from rankmuster.report.incident_words import OUTCOMES
from rankmuster.report.inert import plain
from rankmuster.report.words import clock, span

NOBODY = "nobody"
"""Who works on an open incident that no runner has."""

MOST_NAME = 80

MOST_WIDTH = 1_000
"""Columns of a table in which no cell is folded."""


def list_text(
    heads: Sequence[IncidentHead],
    *,
    now: float,
    width: int,
    place: str,
    breaker: Breaker | None,
    more: bool = False,
    chosen: bool = False,
) -> str:
    """`place`: of the journal. `more`: there are older ones that are not listed. `chosen`: not all were asked for."""
    said = breaker_text(breaker, now) if breaker is not None and breaker.closed_at is None else ""
    if not heads:
        return f"{said}{plain(place)} holds no {'such ' if chosen else ''}incident\n"
    lines = _table(heads, now)
    if max(len(line) for line in lines.splitlines()) > width:
        lines = "".join(_two_lines(head, now) for head in heads)
    opened = sum(head.closed_at is None for head in heads)
    waits = f"{opened} open; `rankmuster incident show ID` says what is to be done\n" if opened else ""
    return f"{said}{lines}{waits}{'older ones are not listed: --limit' + chr(10) if more else ''}"


def _table(heads: Sequence[IncidentHead], now: float) -> str:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("state", "instance", "opened", ">took", "by", "class", "boundary", "worked on by", "id"):
        table.add_column(
            name.removeprefix(">"), justify="right" if name[0] == ">" else "left", overflow="fold", no_wrap=name == "id"
        )
    for head in heads:
        table.add_row(*(Text(cell) for cell in _row(head, now)))
    console = Console(
        file=io.StringIO(), width=MOST_WIDTH, color_system=None, markup=False, highlight=False, emoji=False
    )
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def _two_lines(head: IncidentHead, now: float) -> str:
    """For screens on which the table has no room: folded cells can be read by nobody, nor copied."""
    state, instance, opened, took, by, class_, boundary, works, name = _row(head, now)
    of = "" if class_ == "-" else f", {class_}, boundary {boundary}"
    who = "" if works == "-" else f", worked on by {works}"
    return f"{state}: {instance}, opened {opened}, took {took}\n    {name}\n    {by}{of}{who}\n"


def _row(head: IncidentHead, now: float) -> tuple[str, ...]:
    look = OUTCOMES[head.outcome]
    until = head.closed_at if head.closed_at is not None else now
    works = plain(head.lease, MOST_NAME) if head.lease else NOBODY if head.closed_at is None else "-"
    return (
        f"{look.terminal_sign} {look.word}",
        plain(head.instance, MOST_NAME),
        clock(head.opened_at, date=True)[:19],
        span(max(0.0, until - head.opened_at)),
        head.by.value,
        head.class_.value if head.class_ else "-",
        head.boundary.value if head.boundary else "-",
        works,
        plain(head.id, MOST_NAME),
    )


def breaker_text(breaker: Breaker | None, now: float) -> str:
    """The circuit breaker in a line or two."""
    if breaker is None:
        return "the circuit breaker was never open: rebuilds and fences are within their limits\n"
    why = plain(breaker.why, 600)
    if breaker.closed_at is None:
        return (
            f"THE CIRCUIT BREAKER IS OPEN since {clock(breaker.opened_at, date=True)} "
            f"({span(max(0.0, now - breaker.opened_at))}): {why}\n"
            "nothing is rebuilt and nobody fenced without an operator: mend what they have in common, then "
            "`rankmuster incident breaker close`\n"
        )
    by = f" by {plain(breaker.closed_by, MOST_NAME)}" if breaker.closed_by else ""
    return (
        f"the circuit breaker is closed, since {clock(breaker.closed_at, date=True)}{by}; it was open from "
        f"{clock(breaker.opened_at, date=True)}: {why}\n"
    )
