"""How slowness is said: headline, the late rank, since when, what grew, which group. One wording for all forms."""

from __future__ import annotations

import math

from rankmuster.model.ranks_text import rank_ranges, ranks_text
from rankmuster.model.slow import Growth, LateRank, OperationKey, Pattern, SlowGroup, SlowReport, Timing
from rankmuster.model.slow_baseline import Comparison, Measure, Outcome
from rankmuster.report.inert import plain
from rankmuster.report.words import clock, span

WORTH_TELLING = 0.01
"""Share of wall time from which what is not called slow is told."""

SLOW_PATTERNS = (Pattern.PERSISTENT, Pattern.TAIL)


def time_text(milliseconds: float | None) -> str:
    """`35 us`, `9.4 us`, `1.3 ms`, `20 ms`; empty for None."""
    if milliseconds is None or not math.isfinite(milliseconds):
        return ""
    if 0 < abs(milliseconds) < 0.01:
        return f"{milliseconds * 1e3:.1f} us"
    return span(milliseconds / 1e3) if abs(milliseconds) > 0 else "0"


def bytes_text(size: int | None) -> str:
    """`128 KiB`; empty for None."""
    if size is None:
        return ""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 10 or value == int(value) else f"{value:.1f} {unit}"


def key_text(key: OperationKey) -> str:
    """`all_reduce 16 x 4096 BFloat16`."""
    return plain(f"{key.op} {key.size} {key.dtype}")


def _group(label: str, members: tuple[int, ...]) -> str:
    """With its ranks: many groups go by one name."""
    return f"{plain(label)} (ranks {plain(rank_ranges(members), 80)})"


def since_text(late: LateRank) -> str:
    """`since 12:00:03.120Z (#751)`, `from ... to ...`, `all through the window`."""
    if late.pattern is Pattern.TAIL and late.since is None and late.until is None:
        return f"between {clock(late.first)} and {clock(late.last)}"
    if late.since is not None:
        start = f"since {clock(late.since.at)} (#{late.since.seq})"
    else:
        start = "since before the window" if late.from_start else f"first at {clock(late.first)}"
    return f"{start}, until {clock(late.until.at)} (#{late.until.seq})" if late.until is not None else start


def late_text(late: LateRank) -> str:
    """One late rank as a sentence without its full stop."""
    text = f"rank {late.rank} in {_group(late.label, late.members)}: waiting for it takes {late.share:.0%} of wall time"
    if late.pattern is Pattern.PERSISTENT:
        text += f", persistently, {since_text(late)}"
    elif late.pattern is Pattern.TAIL:
        text += f", in {late.events} single waits, {since_text(late)}"
    text += (
        f"; typically {time_text(late.typical_ms)}, at worst {time_text(late.worst_ms)} (#{late.example}); "
        f"{late.dominance:.0%} of all waiting in the group, over {late.rounds} collectives"
    )
    if late.pattern is Pattern.VICTIM:
        text += f"; it spends {late.elsewhere or 0.0:.0%} in other groups' operations itself, so it is a victim there"
    elif late.pattern is Pattern.SEVERAL:
        text += "; no single rank is late"
    elif late.pattern is Pattern.ORDINARY and not late.together:
        text += "; within what healthy jobs show"
    if late.together:
        text += (
            f"; {ranks_text(late.together)} come after all others together, and waiting for them takes "
            f"{late.together_share:.0%}"
        )
    if late.absent and late.pattern in SLOW_PATTERNS:
        text += f"; of {ranks_text(late.absent)} there is no window, which may come later still"
    return text


def grown_text(growth: Growth) -> str:
    """One transfer that grew."""
    change = growth.change
    return (
        f"{plain(growth.label)} {key_text(growth.key)}: transfer grew from {time_text(change.before_ms)} to "
        f"{time_text(change.after_ms)} at {clock(change.at)} (#{change.seq}), on all its ranks alike; "
        f"that takes {change.share:.0%} of wall time since"
    )


def group_text(slow: SlowGroup) -> str:
    """One group that is slower than its equals."""
    text = (
        f"{_group(slow.label, slow.members)} {key_text(slow.key)}: median transfer "
        f"{time_text(slow.median_ms)}, {slow.ratio:.1f} times that of {slow.peers} equal "
        f"{'group' if slow.peers == 1 else 'groups'} ({time_text(slow.peers_ms)}); "
        f"that takes {slow.share:.0%} of wall time"
    )
    return text if slow.peers > 1 else f"{text}; of two groups nobody can tell which is odd"


def headline(report: SlowReport) -> str:
    """The answer in one sentence."""
    if report.timing is Timing.NONE:
        return "nothing to measure: the dumps hold no durations, nor enqueue times in common"
    if report.timing is Timing.HOST:
        return "no durations in the dumps: enqueue times alone, which convict nobody"
    late = [one for one in report.late if one.pattern in SLOW_PATTERNS]
    parts = []
    if late:
        named = sorted({one.rank for one in late})
        parts.append(
            f"{ranks_text(named)} {'comes' if len(named) == 1 else 'come'} late "
            f"({late[0].pattern.value}, {late[0].share:.0%} of wall time)"
        )
    several = max((one for one in report.late if one.together), key=lambda one: one.together_share, default=None)
    if several is not None and not late:
        parts.append(
            f"{ranks_text(several.together)} come late together ({several.together_share:.0%} of wall time; no single "
            "one accounts for it)"
        )
    odd = sorted({plain(one.label) for one in report.slow_groups if one.odd})
    if odd:
        parts.append(f"{', '.join(odd[:4])} slower than {'its' if len(odd) == 1 else 'their'} equals")
    grown = [one for one in report.grown if one.matters]
    if grown:
        parts.append(f"transfers grew at {clock(min(one.change.at for one in grown))}")
    if parts:
        return "slow: " + "; ".join(parts)
    if report.only_disturbed:
        return "not judged: dumps with stacks slowed the whole window"
    if not report.judged:
        return "not judged: too few collectives, or too short a window"
    return "no late rank, no slow group, no lasting change"


def comparison_headline(comparison: Comparison) -> str:
    """How it compares, in one sentence."""
    if comparison.differs:
        return f"not compared: {plain('; '.join(comparison.differs))}"
    saved = f"{comparison.windows} saved {'window' if comparison.windows == 1 else 'windows'}"
    lead = "provisional, of too little history: " if comparison.provisional else ""
    if not comparison.compared:
        return f"{lead}none of what ran now has history in {saved}"
    slower, ranks = comparison.slower, comparison.ranks
    parts = []
    if slower:
        worst = max(slower, key=lambda one: one.share)
        ratio = next(
            one
            for one in worst.ratios
            if one.outcome is Outcome.SLOWER and one.measure in (Measure.TRANSFER_P50, Measure.TRANSFER_P99)
        )
        parts.append(
            f"{len(slower)} of {len(comparison.compared)} kinds transfer slower, first "
            f"{plain(worst.key.role)} {key_text(worst.key)}: {ratio.measure.value} {ratio.ratio:.2f} times"
            + (f" ({plain(worst.groups[0][0])} {worst.groups[0][1]:.2f} times in the median)" if worst.groups else "")
        )
    if ranks:
        more = ", ".join(f"rank {one.rank} ({one.now:.0%}, before {one.before:.0%})" for one in ranks[:4])
        parts.append(f"more of wall time is waited for {more}")
    return lead + ("; ".join(parts) if parts else f"as before, within what {saved} scatter by")
