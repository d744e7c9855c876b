"""Words that all reports of a release share, and the checklist itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from rankmuster.model.release import Checklist, ItemResult, ItemState

SHORT = 19
"""Characters of a hash that are shown: `sha256:` and twelve digits."""
MOST_NAMED = 6
"""Names in one sentence; more are counted."""

WORDS = {
    ItemState.PASS: "pass",
    ItemState.FAIL: "FAIL",
    ItemState.UNKNOWN: "unknown",
    ItemState.WAIVED: "waived",
}
"""What fails stands out without a colour."""


def day(unix: float) -> str:
    """The day of a moment, UTC: 2026-12-31."""
    return moment(unix)[:10]


def moment(unix: float) -> str:
    """A moment, UTC: 2026-12-31 14:05:09Z."""
    try:
        return datetime.fromtimestamp(unix, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{unix:.0f} s"


def named(names: Sequence[object]) -> str:
    """Names in one line: the first few, and how many more."""
    first = ", ".join(str(one) for one in names[:MOST_NAMED])
    return first if len(names) <= MOST_NAMED else f"{first} and {len(names) - MOST_NAMED} more"


def short(hashed: str) -> str:
    """A hash as people compare it."""
    return hashed[:SHORT]


def headline(checklist: Checklist) -> str:
    """The answer in one line."""
    count = len(checklist.results)
    waived = sum(one.state is ItemState.WAIVED for one in checklist.results)
    if checklist.passed:
        by = f", {waived} of them by a waiver" if waived else ""
        return f"release {checklist.release} may take traffic: all {count} items pass{by}"
    parts = [
        f"{len(some)} {words}"
        for some, words in ((checklist.failed, "fail"), (checklist.open, "cannot be told"))
        if some
    ]
    return f"release {checklist.release} must not take traffic: of {count} items {' and '.join(parts)}"


def waiver_words(result: ItemResult) -> str:
    """Of a waived item: who took it on, until when, and why; empty for others."""
    if result.waiver is None:
        return ""
    last = day(result.waiver.until - 1.0)
    return f"waived by {result.waiver.owner} until {last}: {result.waiver.reason}"
