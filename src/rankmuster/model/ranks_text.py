"""How ranks are written, everywhere: runs of three and more are folded, two neighbours stay `0, 1`."""

from __future__ import annotations

from collections.abc import Iterable

FOLDED = 3
"""Shortest run written as a range: `0-1` is no shorter than `0, 1` and reads like a pair."""


def rank_ranges(ranks: Iterable[int]) -> str:
    """`0-6, 8` for 0 to 6 and 8, `0, 1` for two; empty for none."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts: list[str] = []
    for first, last in runs:
        if last - first + 1 >= FOLDED:
            parts.append(f"{first}-{last}")
        else:
            parts += [str(rank) for rank in range(first, last + 1)]
    return ", ".join(parts)


def ranks_text(ranks: Iterable[int]) -> str:
    """`rank 2`, `ranks 0, 1`, `ranks 0-7, 9`; `no rank` for none."""
    found = set(ranks)
    if not found:
        return "no rank"
    return ("rank " if len(found) == 1 else "ranks ") + rank_ranges(found)
