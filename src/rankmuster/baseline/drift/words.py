"""How drift is said: changes in percent, times by the calendar, names of classes and nodes short enough to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone

from rankmuster.model.fingerprint import Change

NAMED = 3
"""Nodes named in a sentence; the finding has all."""

_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{12})[0-9a-f]{20,}")
_AMOUNT = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([^\d\s].*)?\Z")
_SCALED = re.compile(r"rate|speed|width|generation|count|links|gbps|memlock", re.IGNORECASE)


def percent(change: float) -> str:
    """`8.1 % slower`, `3.0 % faster`."""
    return f"{abs(change) * 100:.1f} % {'slower' if change < 0 else 'faster'}"


def day(at: float) -> str:
    """Unix seconds as a date and time in UTC; `an unknown time` for what no calendar has."""
    try:
        return datetime.fromtimestamp(at, tz=timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def short(class_hash: str) -> str:
    """A hash by its first 12 digits, other words as they are."""
    return _HASH.sub(r"\1", class_hash)


def some(nodes: Sequence[str]) -> str:
    """`a, b and c`, `a, b, c and 34 more`."""
    if len(nodes) > NAMED + 1:
        return f"{', '.join(nodes[:NAMED])} and {len(nodes) - NAMED} more"
    return " and ".join(filter(None, (", ".join(nodes[:-1]), nodes[-1] if nodes else "")))


def many(count: int, what: str = "node") -> str:
    """`1 node`, `37 nodes`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def changed(change: Change) -> str:
    """`driver: 580.1 -> 580.2`."""
    return f"{change.part}: {short(change.before) or 'none'} -> {short(change.after) or 'none'}"


def relative(change: Change) -> float | None:
    """Relative change of a rate, width or count (-0.5: half as much); None where it is no such number."""
    before, after = _AMOUNT.match(change.before), _AMOUNT.match(change.after)
    if not (_SCALED.search(change.part) and before and after) or before[2] != after[2] or float(before[1]) == 0:
        return None
    return float(after[1]) / float(before[1]) - 1.0
