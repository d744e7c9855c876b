"""What the numbers of a table say about how many ranks it is of, also where a damaged file has no numbers."""

from __future__ import annotations

import math

import pytest

from rankmuster.evidence.nccl_tests_factor import ANY, factor, odd_one, sizes
from rankmuster.evidence.nccl_tests_rows import Placement, Row
from rankmuster.model.benchmark import Operation


def row(algbw: float, busbw: float) -> Row:
    half = Placement(1.0, algbw, busbw, 0.0, None)
    return Row(1, 1 << 20, 1 << 18, "float", "sum", None, half, None, False)


@pytest.mark.parametrize(
    ("algbw", "busbw"), [(math.inf, math.inf), (math.nan, 1.0), (100.0, math.nan), (math.inf, 1.0)]
)
def test_what_is_no_number_says_nothing(algbw: float, busbw: float) -> None:
    rows = [row(algbw, busbw)]
    assert factor(rows) is None
    assert odd_one(rows) is None
    assert sizes(Operation.ALL_REDUCE, rows) in (ANY, sizes(Operation.ALL_REDUCE, [row(0.0, 0.0)]))


def test_numbers_beside_it_still_do() -> None:
    found = sizes(Operation.ALL_REDUCE, [row(math.inf, math.nan), row(100.0, 150.0)])
    assert found.allow(4)
    assert not found.allow(2)
