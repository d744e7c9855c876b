"""The flight report on a terminal: the verdict, the groups that tell most, the others counted, and the dumps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from rich.console import Console

from rankmuster.model.dump_sets import Between
from rankmuster.model.fault import FaultClass
from rankmuster.model.flight_report import Aligned, DumpsReport, FlightReport, GapKind, GroupReport, GroupState
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.verdict import Verdict
from rankmuster.report import theme
from rankmuster.report.flight.aligned import print_aligned
from rankmuster.report.flight.further import print_further
from rankmuster.report.flight.group import print_group
from rankmuster.report.flight.stacks import print_stacks
from rankmuster.report.flight.words import MAX_NAME, SINCE, STATES, counted, range_text, short_ranks
from rankmuster.report.inert import plain
from rankmuster.report.paper import Paper
from rankmuster.report.words import accused, class_name, span, story

FEW = 3
"""Groups that are told in full whatever they show: a small job's whole roll call fits a screen."""

MAX_KINDS = 20
"""Lines of groups that are counted; behind them the rest is one line."""

MAX_FILES = 20
"""Damaged files named one by one."""

TELLING = frozenset(
    {GroupState.DIFFERENCE, GroupState.NOT_COME, GroupState.UNPLACED, GroupState.NOT_LEFT, GroupState.MESSAGES}
)
"""States that a reader wants in full."""


def told_in_full(
    report: FlightReport, most_groups: int, selected: frozenset[int] | None
) -> tuple[list[GroupReport], list[GroupReport]]:
    """(groups to tell in full, groups to count), in order of interest; `selected`: see `render`."""
    groups = [group for group in report.groups if selected is None or group.key in selected]
    wanted = groups
    if selected is None and len(groups) > FEW:
        # Where each group is held up by another, they tell it together.
        wanted = [group for group in groups if _tells(group)] or [
            group for group in groups if group.state is GroupState.HELD
        ]
    full = wanted[:most_groups]
    told = {group.key for group in full}
    return full, [group for group in groups if group.key not in told]


def render(
    verdict: Verdict,
    report: FlightReport,
    console: Console,
    *,
    most_groups: int,
    selected: frozenset[int] | None = None,
    aligned: Sequence[Aligned] = (),
) -> None:
    """`most_groups`: told in full at most; `selected`: keys of the groups that were asked for, None for all.

    `aligned`: tables of numbers side by side.
    """
    paper = Paper(console)
    _head(paper, verdict, report)
    full, others = told_in_full(report, most_groups, selected)
    labels = {group.key: group.label for group in report.groups}
    named = verdict.named
    if full:
        paper.heading("Groups", f"{len(full)} of {counted(len(report.groups), 'group')} in full")
    stopped = verdict.class_ not in (FaultClass.INCONCLUSIVE, FaultClass.BLIND)
    for place, group in enumerate(full):
        if place:
            console.print()
        print_group(paper, group, named, labels, stopped=stopped)
    for table in aligned:
        print_aligned(paper, table)
    _counted(paper, others, bool(full))
    if report.stacks is not None:
        print_stacks(paper, report.stacks)
    _dumps(paper, report.dumps)
    print_further(paper, verdict)


def head(verdict: Verdict, report: FlightReport, console: Console) -> None:
    """The verdict and what it was made of, alone."""
    _head(Paper(console), verdict, report)


def _head(paper: Paper, verdict: Verdict, report: FlightReport) -> None:
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
    dumps = report.dumps
    paper.line(
        paper.text(
            f"{counted(len(dumps.ranks), 'dump')} of {counted(len(dumps.world), 'rank')}, "
            f"{counted(dumps.entries, 'record')} in {counted(len(report.groups), 'group')}",
            "dim",
        )
    )
    if report.between is not None:
        _between(paper, report.between)


def _between(paper: Paper, between: Between) -> None:
    note = between.note[:1].upper() + between.note[1:]
    if not between.believed:
        paper.line(paper.text(f"Earlier set left out: {SINCE[between.since]}.", "bold"), paper.text(f"{note}."))
        return
    apart = f", {span(between.seconds)} on by their newest records" if between.seconds else ""
    paper.line(paper.text(f"Earlier set: {SINCE[between.since]}{apart}.", "bold"), paper.text(f"{note}."))
    if between.uncompared:
        paper.line(paper.text(f"no dump in both sets of {short_ranks(between.uncompared)}", "dim"), indent=1)
    if between.strangers:
        paper.line(paper.text(f"earlier dumps of another run: {short_ranks(between.strangers)}", "dim"), indent=1)


def _tells(group: GroupReport) -> bool:
    if group.accused or group.state in TELLING:
        return True
    clashes = group.messages is not None and group.messages.clashing > 0
    return clashes or (group.exchanges is not None and group.exchanges.clashing > 0)


def _counted(paper: Paper, groups: Sequence[GroupReport], others: bool) -> None:
    """Groups alike on one line: state, description, size, and the numbers they have come to."""
    if not groups:
        return
    alike: dict[tuple[GroupState, str, int], list[GroupReport]] = defaultdict(list)
    for group in groups:
        described = group.desc if group.desc and group.desc != "undefined" else ""
        alike[group.state, described, len(group.members)].append(group)
    paper.heading("Other groups" if others else "Groups", counted(len(groups), "group"))
    kinds = sorted(alike.items(), key=lambda item: (list(GroupState).index(item[0][0]), -len(item[1]), item[0][1]))
    for (state, described, size), same in kinds[:MAX_KINDS]:
        paper.item(".", paper.text(_kind(same, described, size)), paper.text(f"- {STATES[state]}", "dim"))
    rest = kinds[MAX_KINDS:]
    if rest:
        count = sum(len(same) for _, same in rest)
        states = Counter(state for (state, _, _), same in rest for _ in same)
        said = ", ".join(f"{number} {STATES[state]}" for state, number in states.items())
        paper.item("", paper.text(f"and {counted(count, 'more group')} of {len(rest)} kinds: {said}", "dim"))


def _kind(same: Sequence[GroupReport], described: str, size: int) -> str:
    name = plain(described, MAX_NAME) or "without a description"
    if len(same) == 1:
        name = plain(same[0].label, MAX_NAME)
        text = f"{name}, {short_ranks(same[0].members)}"
    else:
        text = f"{counted(len(same), 'group')} {name} of {counted(size, 'rank')}"
    last = [group.window.last for group in same if group.window is not None]
    if last and max(last) > 0:
        text += f", at {range_text(min(last), max(last))}"
    gaps = sum(any(gap.kind is GapKind.COMMON for gap in group.gaps) for group in same)
    if gaps:
        text += f" (with graph captures or unrecorded calls{'' if gaps == len(same) else f' in {gaps}'})"
    return text


def _dumps(paper: Paper, dumps: DumpsReport) -> None:
    """Only what limits the rest: nothing of dumps that are as they should be."""
    lines: list[tuple[str, str]] = []

    def add(sign: str, ranks: Sequence[int], words: str) -> None:
        if ranks:
            lines.append((sign, f"{short_ranks(ranks)}: {words}"))

    add("!", dumps.missing, "no dump")
    add("!", dumps.empty, "an empty dump: a recorder of size 0, or nothing called yet")
    for rank, seconds in dumps.other_run[:MAX_FILES]:
        when = f"{span(abs(seconds))} {'before' if seconds < 0 else 'after'} its peers'"
        lines.append(("!", f"rank {rank}: its dump ends {when}: of another run, or its host's clock is off; left out"))
    add("!", dumps.cut, "the file ends early; what it held behind that is unknown")
    if dumps.overwritten is not None:
        lost = dumps.overwritten
        count = f"{lost.least:,}" if lost.least == lost.most else f"{lost.least:,} to {lost.most:,}"
        add("-", lost.ranks, f"the ring overwrote {count} records each: what is before is unknown, not missing")
    add("-", dumps.only_active, "the dump lists outstanding operations alone, by request")
    add("-", dumps.in_motion, "taken while the job moved: outstanding operations are its tail")
    if dumps.captured:
        words = (
            f"{counted(dumps.captured_records, 'record')} captured in CUDA graphs, which never retire and are no waits"
        )
        add("-", dumps.captured, words)
    if dumps.coalesced:
        words = f"{counted(dumps.coalesced, 'coalesced call')} of {counted(dumps.children, 'part')}"
        lines.append(("-", f"{words}: the parts never move, their end record tells"))
    if dumps.batches:
        lines.append(
            ("-", f"{counted(dumps.batches, 'batch', 'batches')} of sends and receives, told by their end record")
        )
    if dumps.ranks and not dumps.timed:
        lines.append(("-", "no start times (TORCH_NCCL_ENABLE_TIMING=1): scheduled may mean waiting or queued"))
    if dumps.older_files:
        what = counted(len(dumps.older_files), "further dump")
        lines.append(("-", f"{what} of ranks that have a newer one or the same, or of the other recorder"))
    if len(dumps.versions) > 1:
        said = "; ".join(f"{version} of {ranks_text(ranks)}" for version, ranks in dumps.versions.items())
        lines.append(("-", f"schemas differ: {said}"))
    if lines or dumps.damaged or dumps.other_damaged:
        paper.heading("Dumps")
    for sign, words in lines:
        paper.item(sign, paper.text(words))
    for line in dumps.damaged[:MAX_FILES]:
        paper.item("!", paper.text(line))
    if len(dumps.damaged) > MAX_FILES:
        paper.item("", paper.text(f"and {len(dumps.damaged) - MAX_FILES} more damaged files; JSON has them", "dim"))
    if dumps.other_damaged:
        what = counted(dumps.other_damaged, "problem")
        paper.item("", paper.text(f"{what} with other files (rankmuster diagnose names them)", "dim"))
