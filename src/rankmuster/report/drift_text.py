"""Drift on a terminal: the answer, what is systematic, the worst single nodes, and what must be measured anew.

For 1 node and for 1,000: a fleet's single nodes are counted by kind and only the worst are shown, and what could not
be compared is grouped by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from rankmuster.model.drift import DriftFinding, DriftReport, DriftScope
from rankmuster.report.drift_words import count, headline, size_text
from rankmuster.report.paper import Paper
from rankmuster.report.words import clock

MAX_WORST = 12
"""Single nodes shown; JSON has all."""

MAX_SYSTEMATIC = 20
"""Findings of many nodes shown: more of them are one thing seen often."""

MAX_LINES = 8
"""Lines of one list; JSON has all."""

MAX_NAMES = 4
"""Nodes named in a line."""

WIDE = 100
"""Columns from which on kind, change and time have columns of their own before the words."""


def render(report: DriftReport, console: Console) -> None:
    """Prints the report, wrapped to the console's width."""
    paper = Paper(console)
    paper.line(paper.text(headline(report), "bold"), whole=True)
    classes = f"{len(report.classes):,} {'class' if len(report.classes) == 1 else 'classes'}"
    findings = count(len(report.findings), "finding")
    paper.line(paper.text(f"{count(report.nodes)} of {classes} compared, {findings}", "dim"))
    _systematic(paper, report)
    _single(paper, report)
    _baseline(paper, report)
    paper.listing("Could not be compared", _grouped(report.unknown), "?", MAX_LINES)
    paper.listing("Seen, and deciding nothing", _grouped(report.notes), "-", MAX_LINES)


def _systematic(paper: Paper, report: DriftReport) -> None:
    findings = [one for one in report.findings if one.scope is DriftScope.SYSTEMATIC]
    if not findings:
        return
    paper.heading("Many nodes at once")
    for one in findings[:MAX_SYSTEMATIC]:
        _finding(paper, one, "!" if (one.size or 0.0) < 0 else "*")
    _more(paper, findings[MAX_SYSTEMATIC:])


def _single(paper: Paper, report: DriftReport) -> None:
    findings = [one for one in report.findings if one.scope is DriftScope.NODE]
    if not findings:
        return
    kinds = Counter(one.kind.value for one in findings)
    note = ", ".join(f"{kind} {number:,}" for kind, number in kinds.most_common())
    paper.heading("Single nodes", note if len(findings) > 1 else "")
    worst = sorted(findings, key=lambda one: (one.size is None, one.size or 0.0))
    for one in worst[:MAX_WORST]:
        _finding(paper, one, "*")
    _more(paper, worst[MAX_WORST:])


def _finding(paper: Paper, one: DriftFinding, sign: str) -> None:
    named = "" if one.scope is DriftScope.SYSTEMATIC else ", ".join(one.nodes[:MAX_NAMES])
    if len(one.nodes) > MAX_NAMES and named:
        named += f" and {len(one.nodes) - MAX_NAMES} more"
    if paper.width >= WIDE:
        when = "" if one.since is None else clock(one.since, date=True)[:16]
        cells = [(f"{sign:>3}", 3), (one.kind.value, 11), (size_text(one), 9), (when, 17)]
        words = f"{named}: {one.statement}" if named else one.statement
        paper.entry([(paper.text(text), width) for text, width in cells], paper.text(words))
    else:
        size = f" {size_text(one)}" if one.size is not None else ""
        paper.item(sign, paper.text(f"{named + ': ' if named else ''}{one.kind.value}{size}: {one.statement}"))
    if one.effect:
        paper.line(paper.text(one.effect, "dim"), indent=4)


def _more(paper: Paper, findings: Sequence[DriftFinding]) -> None:
    if not findings:
        return
    kinds = Counter(one.kind.value for one in findings)
    said = ", ".join(f"{kind} {number:,}" for kind, number in kinds.most_common())
    paper.line(paper.text(f"and {len(findings):,} more ({said}); JSON has them", "dim"), indent=4)


def _baseline(paper: Paper, report: DriftReport) -> None:
    if report.baseline_applies:
        return
    paper.heading("Baseline", "results from before cannot be compared with")
    for line in report.why[:MAX_LINES]:
        paper.item("*", paper.text(line))
    if len(report.why) > MAX_LINES:
        paper.line(paper.text(f"and {len(report.why) - MAX_LINES} more; JSON has them", "dim"), indent=4)
    paper.listing("To be measured anew", report.regenerate, "*", MAX_LINES)
    if not report.regenerate:
        paper.item("-", paper.text("the classes that the nodes are in now have results enough of their own"))


def _grouped(lines: Sequence[str]) -> list[str]:
    """Lines that begin with a node's name and say the same, as one with the nodes counted."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        name, separator, rest = line.partition(": ")
        groups.setdefault(rest if separator else line, []).append(name if separator else "")
    return [_group(rest, names) for rest, names in sorted(groups.items(), key=lambda item: -len(item[1]))]


def _group(rest: str, names: Sequence[str]) -> str:
    named = [name for name in names if name]
    if not named:
        return rest
    if len(named) > MAX_NAMES:
        return f"{len(named):,} nodes ({', '.join(named[:MAX_NAMES])}, ...): {rest}"
    return f"{', '.join(named)}: {rest}"
