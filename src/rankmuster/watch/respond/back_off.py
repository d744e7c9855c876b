"""How long to wait before a server is asked again. Light: the process that posts and the one that bounds it read it."""

from __future__ import annotations

MOST_BACK_OFF = 8.0
"""Seconds between two attempts, at most: 1, 2, 4, 8, 8 ... A server that restarts takes some seconds."""


def back_off(attempt: int) -> float:
    """Seconds to wait after this attempt, counted from 1."""
    return min(2.0 ** (attempt - 1), MOST_BACK_OFF)
