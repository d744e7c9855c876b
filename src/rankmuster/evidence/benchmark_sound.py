"""Whether the numbers of a run agree with each other: its times, its bandwidths and how many GPUs took part.

A program writes files of our own form, so numbers that contradict each other were changed or damaged on the way.
"""

from __future__ import annotations

import math

from rankmuster.model.benchmark import BenchmarkRun, Measurement
from rankmuster.model.sizes_text import size_text

TOLERANCE = 0.02
"""Of a bandwidth: nccl-tests prints times with three digits or more, which is off by 0.5 % at worst."""

STEP = 0.011
"""GB/s, two steps of the last decimal that nccl-tests prints."""

SHARE = 16
"""Bytes to which each rank's part is rounded down: what was measured may be so much less than what was asked for."""


def contradiction(run: BenchmarkRun) -> str:
    """What contradicts itself in the run, in words; nothing where its numbers agree."""
    for row in run.measurements:
        words = _row(row, run)
        if words:
            return f"{row.cell.operation.value} of {size_text(row.cell.size_bytes)}: {words}"
    return ""


def _row(row: Measurement, run: BenchmarkRun) -> str:
    if not (math.isfinite(row.time_us) and row.time_us > 0):
        return f"a time of {row.time_us:g} us is none"
    if not (math.isfinite(row.algbw) and math.isfinite(row.busbw)):
        return "a bandwidth is no number"
    rate = row.cell.size_bytes / row.time_us / 1e3
    unshared = rate * SHARE * max(run.members, 1) / max(row.cell.size_bytes, 1)
    if abs(rate - row.algbw) > max(STEP, TOLERANCE * rate) + unshared:
        return f"size / time is {rate:.4g} GB/s, and its algbw is {row.algbw:.4g}"
    if run.members < 2:
        return ""
    bus = row.algbw * row.cell.operation.bus_factor(run.members)
    if abs(bus - row.busbw) > max(2 * STEP, TOLERANCE * bus):
        return f"its busbw is {row.busbw:.4g} GB/s, and over {run.members} GPUs it is {bus:.4g}"
    return ""
