"""Slow collectives on a terminal: the answer first, then who and since when, then the distributions."""

from __future__ import annotations

from rich.console import Console

from rankmuster.model.slow import SlowReport, Timing
from rankmuster.model.slow_baseline import Comparison
from rankmuster.report import slow_tables
from rankmuster.report.paper import Paper
from rankmuster.report.slow_words import (
    SLOW_PATTERNS,
    WORTH_TELLING,
    comparison_headline,
    group_text,
    grown_text,
    headline,
    key_text,
    late_text,
)
from rankmuster.report.words import clock, span

MAX_LINES = 8
"""Lines of one list; JSON has all."""

MAX_KINDS = 4
"""Kinds of collectives named where they cannot be compared."""


def render(report: SlowReport, console: Console, comparison: Comparison | None = None) -> None:
    """Prints the report; `comparison`: against a baseline, where there is one."""
    paper = Paper(console)
    paper.line(paper.text(headline(report), "bold"), whole=True)
    around = report.surroundings
    facts = [f"{around.world_size} ranks" if around.world_size else "world size unknown"]
    if report.window[1] > 0:
        facts.append(f"{clock(report.window[0], date=True)} to {clock(report.window[1])} ({span(report.seconds)})")
    if report.timing is Timing.EVENTS:
        facts.append(f"{sum(one.collectives for one in report.operations)} collectives with durations from CUDA events")
    paper.line(paper.text(", ".join(facts), "dim"))
    paper.listing("Late ranks", [late_text(one) for one in report.late if one.pattern in SLOW_PATTERNS], "*", MAX_LINES)
    paper.listing("Late together", [late_text(one) for one in report.late if one.together], "?", MAX_LINES)
    paper.listing(
        "Slower than their equals", [group_text(one) for one in report.slow_groups if one.odd], "*", MAX_LINES
    )
    paper.listing("Transfers that grew", [grown_text(one) for one in report.grown if one.matters], "*", MAX_LINES)
    if comparison is not None:
        _comparison(paper, comparison)
    paper.listing("Seen, and not called slow", _also(report), "-", MAX_LINES)
    slow_tables.operations(paper, report.operations)
    slow_tables.ranks(paper, report)
    slow_tables.skew(paper, report.host_skew)
    paper.listing("Not seen", report.notes, "-", MAX_LINES)


def _also(report: SlowReport) -> list[str]:
    """What is there and convicts nobody, where it takes any time at all."""
    late = [one for one in report.late if one.pattern not in SLOW_PATTERNS and not one.together]
    return [
        *(late_text(one) for one in late if one.share >= WORTH_TELLING),
        *(group_text(one) for one in report.slow_groups if not one.odd and one.share >= WORTH_TELLING),
        *(grown_text(one) for one in report.grown if not one.matters and one.change.share >= WORTH_TELLING),
    ]


def _comparison(paper: Paper, comparison: Comparison) -> None:
    paper.heading("Against the baseline")
    paper.line(paper.text(comparison_headline(comparison)))
    if comparison.taken_as_same:
        paper.line(paper.text(f"taken to be the same, not known: {', '.join(comparison.taken_as_same)}", "dim"))
    slow_tables.compared(paper, comparison)
    for words, kinds in (("without history", comparison.new), ("not run now", comparison.gone)):
        if kinds:
            named = ", ".join(f"{one.role} {key_text(one)}" for one in kinds[:MAX_KINDS])
            more = f" and {len(kinds) - MAX_KINDS} more" if len(kinds) > MAX_KINDS else ""
            paper.item("-", paper.text(f"{words}: {named}{more}"))
