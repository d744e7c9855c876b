"""The middle of some numbers is what the standard library says it is."""

from __future__ import annotations

import statistics

import pytest

from rankmuster.diagnose.middle import median


@pytest.mark.parametrize(
    "values", [[3.0], [2.0, 1.0], [5, 1, 4], [0.1, 0.7, 0.2, 0.3], [1.0, float("inf")], [-0.0, 0.0]]
)
def test_it_is_the_standard_librarys(values: list[float]) -> None:
    assert median(iter(values)) == statistics.median(values)
