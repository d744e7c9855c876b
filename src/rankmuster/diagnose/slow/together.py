"""Several ranks that come late together: none of them accounts for the waiting, all of them do.

Waiting for one rank ends with the last but one to come (`lateness`). Of two ranks that are late by the same time each
hides the other, and both of them slow the job. Measured like one rank: what the others wait from when the last of them
has come until all of the late ones have, in long waits, by its share of wall time.
"""

from __future__ import annotations

import numpy as np

from rankmuster.diagnose.slow.lateness import Rounds
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.model.flight import Floats

LEAST_OTHERS = 2
"""How many times as many ranks must come in time as late: of a half that waits for the other nobody can tell which is
the odd one."""


def late_together(rounds: Rounds, limits: Thresholds, *, disturbed: bool) -> tuple[tuple[int, ...], float]:
    """The ranks, two or more, and the share of wall time that the others wait for them; none and 0 in health."""
    durations = rounds.durations
    ranks, count = durations.shape
    most = ranks // (LEAST_OTHERS + 1)
    span = float(rounds.created.max() - rounds.created.min()) if count else 0.0
    nobody: tuple[tuple[int, ...], float] = ((), 0.0)
    if most < 2 or count < limits.late_rounds or span < limits.late_span_seconds:
        return nobody
    enough = limits.late_share_disturbed if disturbed else limits.late_share
    if float((durations.max(axis=0) - durations.min(axis=0)).sum()) / 1e3 < enough * span:
        return nobody
    # The shorter its duration, the later a rank came.
    order = np.argsort(np.median(durations, axis=1), kind="stable")
    shortest_behind = np.minimum.accumulate(durations[order[::-1]], axis=0)[::-1]
    longest_before = np.full(count, -np.inf)
    ordinary = float(np.median(durations.min(axis=0)))
    long = max(limits.late_tail_factor * ordinary, limits.late_long_ms)
    best = nobody
    for late in range(1, most + 1):
        longest_before = np.maximum(longest_before, durations[order[late - 1]])
        waited = shortest_behind[late] - longest_before
        share = float(waited[waited > long].sum()) / 1e3 / span
        if late > 1 and share > best[1] and _is_steady(waited, rounds.created, limits):
            best = (tuple(sorted(rounds.ranks[row] for row in order[:late].tolist())), share)
    return best if best[1] >= enough else nobody


def _is_steady(waited: Floats, created: Floats, limits: Thresholds) -> bool:
    """Whether nearly every part of the window holds its part of the waiting, as `Lateness.steady` has it."""
    mine = np.clip(waited, 0.0, None)
    buckets = np.histogram(created, bins=limits.late_buckets, weights=mine)[0]
    return bool((buckets >= limits.late_bucket_share * mine.sum() / limits.late_buckets).mean() >= limits.late_steady)
