"""Student's t against published tables (two-sided 0.05, 0.001; one-sided tails)."""

from __future__ import annotations

import pytest

from rankmuster.baseline.student import quantile_above, upper_tail


@pytest.mark.parametrize(
    ("tail", "dof", "t"),
    [
        (0.025, 1, 12.706),
        (0.025, 4, 2.776),
        (0.025, 10, 2.228),
        (0.0005, 4, 8.610),
        (0.0005, 10, 4.587),
        (0.0005, 20, 3.850),
        (0.0005, 120, 3.373),
        (0.25, 7, 0.711),
    ],
)
def test_quantiles_are_those_of_the_tables(tail: float, dof: float, t: float) -> None:
    assert quantile_above(tail, dof) == pytest.approx(t, abs=6e-4)
    assert upper_tail(t, dof) == pytest.approx(tail, rel=2e-3)


def test_the_tail_is_symmetric_and_falls_for_ever() -> None:
    assert upper_tail(0.0, 5) == pytest.approx(0.5)
    assert upper_tail(-2.0, 5) == pytest.approx(1 - upper_tail(2.0, 5))
    assert 0 < upper_tail(60.0, 8) < upper_tail(30.0, 8) < 1e-8
    assert quantile_above(1e-12, 3.3) > 1000
