"""The middle of some numbers. Pure.

As `statistics.median`, which brings decimals and fractions (0.8 MB for a watch of days), and numpy's, which costs fifty
times as much for a few values.
"""

from __future__ import annotations

from collections.abc import Iterable


def median(values: Iterable[float]) -> float:
    """Of at least one value, none of them NaN: that of the middle, or half way between the two."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
