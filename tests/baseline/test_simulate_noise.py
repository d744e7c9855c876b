"""The simulated scatter is that of the captured runs, where one machine can show it."""

from __future__ import annotations

import numpy as np
import pytest
from h200_runs import healthy

from rankmuster.baseline.simulate_noise import CALIBRATED, FAST_US, LINK_BOUND_FROM, MODE_GAP, SIZES


def _scores(in_place: bool) -> np.ndarray:
    """-ln(time), shape (8 runs, 16 sizes)."""
    rows = []
    for run in healthy():
        times = {m.cell.size_bytes: m.time_us for m in run.measurements if m.cell.in_place is in_place}
        rows.append([times[size] for size in SIZES])
    return -np.log(np.array(rows))


LINKED = np.array(SIZES) >= 16 << 20


@pytest.mark.parametrize("in_place", [False, True])
def test_scatter_of_processes_and_sizes_where_the_links_rule(in_place: bool) -> None:
    rest = _scores(in_place)[:, LINKED]
    rest = rest - np.median(rest, axis=0)
    process = rest.mean(axis=1)
    assert process.std(ddof=1) == pytest.approx(CALIBRATED.run_sd, rel=0.3)
    single = np.sqrt(np.mean((rest - process[:, None]) ** 2) * 5 / 4)
    assert 0.6 * CALIBRATED.size_sd < single < 1.2 * CALIBRATED.size_sd


def test_times_and_the_two_modes_are_those_measured() -> None:
    score = np.concatenate((_scores(False), _scores(True)))
    for column, (size, fast, gap) in enumerate(zip(SIZES, FAST_US, MODE_GAP, strict=True)):
        if size >= LINK_BOUND_FROM:
            assert np.exp(-np.median(score[:, column])) == pytest.approx(fast, rel=0.01)
            assert gap == 0
        elif size <= 2 << 20:
            middle = -np.log(fast) - gap / 2
            slow, quick = (score[mask, column] for mask in (score[:, column] < middle, score[:, column] >= middle))
            assert np.median(slow) == pytest.approx(-np.log(fast) - gap, abs=0.08)
            assert np.median(quick) == pytest.approx(-np.log(fast), abs=0.08)
            assert 0.45 < len(slow) / len(score[:, column]) < 0.9
            # Inside its mode a size scatters by a few per cent, whatever its mean.
            assert 0.5 < np.std(slow, ddof=1) / CALIBRATED.small_size_sd < 1.5
