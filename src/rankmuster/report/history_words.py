"""How a history's times and hashes are shown."""

from __future__ import annotations

from datetime import datetime, timezone

DIGITS = 12
"""Hex digits of a hash that are shown; 48 bits tell all classes of a fleet apart."""


def when(at: float) -> str:
    """A time for people, in UTC."""
    try:
        return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return f"{at:.0f}"


def short(hash_: str) -> str:
    """A hash as it is shown, without what all begin with."""
    return hash_.partition(":")[2][:DIGITS] if hash_.startswith("sha256:") else hash_[:DIGITS]
