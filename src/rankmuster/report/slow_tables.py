"""The tables of slow collectives: transfers, waiting, ranks, enqueue times, and the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from rich.table import Table

from rankmuster.model.slow import HostSkew, Operation, OperationKey, SlowReport, distribution
from rankmuster.model.slow_baseline import Comparison, Measure, Outcome, Ratio
from rankmuster.report.inert import plain
from rankmuster.report.paper import Paper
from rankmuster.report.slow_words import WORTH_TELLING, bytes_text, key_text, time_text

MAX_ROWS = 20
"""Rows of one table; JSON and parquet have all."""

LEAST_RANKS = 5
"""Ranks shown even where nobody waits for them for any time worth telling."""

WIDE = 132
"""Columns of a terminal from which tables have all of theirs; on narrower ones they keep the middle, the tail and the
worst, so that the words in them stay words."""

ONLY_WIDE = frozenset(
    {
        "min",
        "p90",
        "p99.9",
        "bytes",
        "of time",
        "last",
        "behind p50",
        "behind p99",
        "duration p99",
        "duration max",
        "windows",
    }
    | {Measure.WAIT_P50.value, Measure.WAIT_P99.value}
)

MOST_RATIO = 1000.0
"""Upper bounds beyond it say nothing but that there is too little history."""


def operations(paper: Paper, every: Sequence[Operation]) -> None:
    """One row per kind; where several groups run it, the median of their medians and the worst of their tails."""
    kinds: dict[OperationKey, list[Operation]] = {}
    for one in every:
        if one.transfer is not None:
            kinds.setdefault(one.key, []).append(one)
    if not kinds:
        return
    ordered = sorted(kinds.items(), key=lambda item: -max(one.busy for one in item[1]))
    paper.heading("Transfer", "the shortest duration of each collective over its members: the last waits for nobody")
    names = ("group", "operation", "bytes", "n", "min", "p50", "p90", "p99", "p99.9", "max", "bus GB/s", "of time")
    _table(paper, names, [_transfer_row(key, group) for key, group in ordered[:MAX_ROWS]], left=2)
    _more(paper, len(ordered))
    paper.heading("Waiting", "of the first to come for the last, per collective")
    waits = ("group", "operation", "min", "p50", "p90", "p99", "p99.9", "max")
    _table(paper, waits, [_wait_row(key, group) for key, group in ordered[:MAX_ROWS]], left=2)
    _more(paper, len(ordered))


def _transfer_row(key: OperationKey, group: Sequence[Operation]) -> list[str]:
    found = [one.transfer for one in group if one.transfer is not None]
    bus = [one.bus_gb_per_s for one in group if one.bus_gb_per_s is not None]
    return [
        _who(key, group),
        key_text(key),
        bytes_text(group[0].bytes),
        str(sum(one.n for one in found)),
        time_text(min(one.low for one in found)),
        time_text(float(np.median([one.p50 for one in found]))),
        time_text(_worst(one.p90 for one in found)),
        time_text(_worst(one.p99 for one in found)),
        time_text(_worst(one.p999 for one in found)),
        time_text(max(one.high for one in found)),
        f"{float(np.median(bus)):.3g}" if bus else "",
        f"{max(one.busy for one in group):.1%}",
    ]


def _wait_row(key: OperationKey, group: Sequence[Operation]) -> list[str]:
    found = [one.wait for one in group if one.wait is not None]
    return [
        _who(key, group),
        key_text(key),
        time_text(min(one.low for one in found)),
        time_text(float(np.median([one.p50 for one in found]))),
        time_text(_worst(one.p90 for one in found)),
        time_text(_worst(one.p99 for one in found)),
        time_text(_worst(one.p999 for one in found)),
        time_text(max(one.high for one in found)),
    ]


def _who(key: OperationKey, group: Sequence[Operation]) -> str:
    return plain(group[0].label) if len(group) == 1 else f"{plain(key.role)}, {len(group)} groups"


def _worst(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def ranks(paper: Paper, report: SlowReport) -> None:
    """Per rank and kind, those first for whom most is waited."""
    table = report.ranks
    shown = np.flatnonzero(table.waited_s > 0)
    if not len(shown):
        return
    shown = shown[np.argsort(-table.waited_s[shown], kind="stable")]
    much = max(LEAST_RANKS, int((table.waited_s[shown] >= WORTH_TELLING * report.seconds).sum()))
    patterns = {(one.group, one.rank): one.pattern.value for one in report.late if one.share >= WORTH_TELLING}
    rows = []
    for row in shown[: min(much, MAX_ROWS)].tolist():
        operation, rank, count = report.operations[int(table.operation[row])], int(table.rank[row]), table.count[row]
        duration = distribution(int(count), table.duration[row])
        behind = distribution(int(count), table.behind[row])
        if duration is None or behind is None:
            continue
        rows.append(
            [
                str(rank),
                plain(operation.label),
                key_text(operation.key),
                patterns.get((operation.group, rank), ""),
                f"{table.waited_s[row] / report.seconds if report.seconds > 0 else 0.0:.1%}",
                f"{int(table.last[row]) / int(count):.0%}",
                *(time_text(value) for value in (behind.p50, behind.p99, behind.high)),
                *(time_text(value) for value in (duration.p50, duration.p99, duration.high)),
            ]
        )
    paper.heading(
        "Ranks by how long others wait for them",
        "waited: share of wall time; last: of its collectives; behind: after the first to come",
    )
    names = ("rank", "group", "operation", "late", "waited", "last", "behind p50", "behind p99", "behind max")
    _table(paper, (*names, "duration p50", "duration p99", "duration max"), rows, left=4)
    _more(paper, len(shown), len(rows))


def skew(paper: Paper, skews: Sequence[HostSkew]) -> None:
    """Who enqueues late, by host clocks."""
    if not skews:
        return
    note = "after the first of the group; host clocks, so it convicts nobody"
    if any(one.own_removed for one in skews):
        note += "; hosts unknown: each rank's ordinary offset is taken off, and only its variation shows"
    paper.heading("Enqueued late", note)
    rows = [
        [
            str(one.rank),
            plain(one.label),
            str(one.behind.n),
            *(time_text(value) for value in (one.behind.p50, one.behind.p90, one.behind.p99, one.behind.high)),
            time_text(one.error_ms) if one.error_ms > 0 else "",
        ]
        for one in sorted(skews, key=lambda one: -one.behind.p50)[:MAX_ROWS]
    ]
    _table(paper, ("rank", "group", "n", "p50", "p90", "p99", "max", "clock error"), rows, left=2)
    _more(paper, len(skews))


def compared(paper: Paper, comparison: Comparison) -> None:
    """Kinds that differ from the baseline, or all of them where none does."""
    told = [one for one in comparison.compared if any(ratio.outcome is not Outcome.SAME for ratio in one.ratios)]
    shown = told or list(comparison.compared)
    rows = []
    for one in shown[:MAX_ROWS]:
        found = [one.of(measure) for measure in Measure]
        ratios = [_ratio_text(ratio, wide=paper.width >= WIDE) if ratio is not None else "" for ratio in found]
        groups = ", ".join(f"{plain(label)} x{times:.1f}" for label, times in one.groups)
        rows.append([plain(one.key.role), key_text(one.key), groups, str(one.n), str(one.windows), *ratios])
    if rows:
        names = ("role", "operation", "beyond any before", "n", "windows", *(measure.value for measure in Measure))
        _table(paper, names, rows, left=3)
        _more(paper, len(shown))


def _ratio_text(ratio: Ratio, *, wide: bool) -> str:
    sign = {Outcome.SLOWER: "!", Outcome.FASTER: "+", Outcome.SAME: ""}[ratio.outcome]
    text = f"{sign}x{ratio.ratio:.2f}"
    if not wide:
        return text
    bounds = f"{ratio.low:.2f}-{ratio.high:.2f}" if ratio.high < MOST_RATIO else f"from {ratio.low:.2f}"
    return f"{text} ({bounds})"


def _table(paper: Paper, names: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> None:
    """`left`: columns of text before those of figures."""
    kept = [place for place, name in enumerate(names) if paper.width >= WIDE or name not in ONLY_WIDE]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", show_edge=False)
    for place in kept:
        figures = place >= left
        table.add_column(names[place], justify="right" if figures else "left", overflow="fold")
    for row in rows:
        table.add_row(*(paper.text(row[place]) for place in kept))
    paper.table(table)


def _more(paper: Paper, rows: int, shown: int = MAX_ROWS) -> None:
    if rows > shown:
        paper.line(paper.text(f"and {rows - shown} more; JSON and parquet have them", "dim"), indent=2)
