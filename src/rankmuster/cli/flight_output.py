"""The report on a set of dumps as it was asked for: rendered whole, or record by record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from rankmuster.cli.flight_options import Asked, Format
from rankmuster.cli.verdict_output import color_wanted, printed

if TYPE_CHECKING:
    from rich.console import Console

    from rankmuster.diagnose.run import Examination
    from rankmuster.model.flight_entry import FlightEntry
    from rankmuster.model.flight_report import Aligned, FlightReport
    from rankmuster.model.slow import SlowReport
    from rankmuster.model.slow_baseline import Comparison

MOST_PRINTED = 5000
"""Records printed on a terminal in all; JSON lines have no bound."""

LINES_AT_ONCE = 5000
"""JSON lines written together, about 3 MB."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A report and what of it is shown. `keys`: of groups, None for all; `slow`: None where it is not told."""

    examined: Examination
    report: FlightReport
    wanted: Asked
    keys: frozenset[int] | None
    slow: tuple[SlowReport, Comparison | None] | None


def rendered(shown: Shown) -> str:
    """The whole report in the format that is wanted."""
    if shown.wanted.form is Format.JSONL:
        return "".join(_lines(shown))
    if shown.wanted.form is Format.JSON:
        return _json(shown)
    color = color_wanted(shown.wanted.no_color, shown.wanted.output)
    return printed(lambda console: _print(shown, console), width=shown.wanted.width, color=color)


def pieces(shown: Shown) -> Iterator[str]:
    """JSON lines by the thousand: a large job's records do not fit into memory as text."""
    lines = _lines(shown)
    while piece := "".join(islice(lines, LINES_AT_ONCE)):
        yield piece


def _entries(shown: Shown, whole: bool = True) -> Iterator[tuple[int, Iterator[FlightEntry], int, int]]:
    """Per rank: (rank, its records, number that the filters choose, number in its dump).

    `whole`: stacks with torch's own frames.
    """
    from rankmuster.diagnose.flight_report.entries import chosen, entries

    context, wanted = shown.examined.context, shown.wanted
    for rank, (rows, count) in chosen(context, wanted.ranks, shown.keys, wanted.limit).items():
        found = entries(context, rank, rows, stacks=wanted.stacks, whole=whole)
        yield rank, found, count, len(context.table.rows[rank].dump.columns)


def _aligned(shown: Shown) -> list[Aligned]:
    """The tables of the groups that are told in full."""
    from rankmuster.diagnose.flight_report.aligned import aligned
    from rankmuster.report.flight.terminal import told_in_full

    wanted = shown.wanted
    full, _ = told_in_full(shown.report, wanted.most_groups, shown.keys)
    tables = (aligned(shown.examined.context, group, wanted.ranks, wanted.limit) for group in full)
    return [table for table in tables if table is not None]


def _lines(shown: Shown) -> Iterator[str]:
    from rankmuster.report.flight import json_form

    for _, found, _, _ in _entries(shown):
        yield from json_form.lines(found)


def _json(shown: Shown) -> str:
    from rankmuster.report.flight import json_form

    wanted = shown.wanted
    found = (entry for _, own, _, _ in _entries(shown) for entry in own) if wanted.entries else None
    slow = None
    if shown.slow is not None:
        from rankmuster.report import slow_json

        slow = slow_json.plain(*shown.slow)
    return json_form.render(
        shown.examined.diagnosis.verdict,
        shown.report,
        selected=shown.keys,
        entries=found,
        slow=slow,
        aligned=_aligned(shown) if wanted.aligned else None,
    )


def _print(shown: Shown, console: Console) -> None:
    from rankmuster.report.flight import terminal

    verdict, wanted = shown.examined.diagnosis.verdict, shown.wanted
    if wanted.entries:
        terminal.head(verdict, shown.report, console)
        _print_entries(shown, console)
    else:
        terminal.render(
            verdict,
            shown.report,
            console,
            most_groups=wanted.most_groups,
            selected=shown.keys,
            aligned=_aligned(shown) if wanted.aligned else (),
        )
    if shown.slow is not None:
        from rankmuster.report import slow_text

        console.print()
        slow_text.render(shown.slow[0], console, shown.slow[1])


def _print_entries(shown: Shown, console: Console) -> None:
    from rankmuster.report.flight.entries import print_entries
    from rankmuster.report.paper import Paper

    paper = Paper(console)
    left = MOST_PRINTED
    ranks = 0
    for rank, found, count, total in _entries(shown, whole=False):
        if left <= 0:
            ranks += 1
            continue
        own = list(islice(found, left))
        left -= len(own)
        print_entries(paper, rank, own, count, total)
    if ranks:
        paper.line(
            paper.text(f"and {ranks} more ranks: narrow it with --rank or --group, or take --format jsonl", "dim")
        )
