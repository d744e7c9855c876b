"""Which days are the baseline, by what was found and what a person decided."""

from __future__ import annotations

import math

import pytest

from history_made import CELLS, DAY, change
from rankmuster.baseline.window import window, windows
from rankmuster.model.history import ChangePoint, ChangeState


def days(*points: ChangePoint, include_after_open: bool = False) -> str:
    """Of twenty days, those that are in the baseline."""
    found = window(points, include_after_open=include_after_open)
    return "".join(
        "x"
        if found.begin <= day * DAY < found.end and not any(start <= day * DAY < stop for start, stop in found.gaps)
        else "."
        for day in range(20)
    )


def at(day: float, state: ChangeState, until: float | None = None) -> ChangePoint:
    return change(day * DAY, state=state, until=None if until is None else until * DAY)


OPEN, ACCEPTED, DISMISSED = ChangeState.OPEN, ChangeState.ACCEPTED, ChangeState.DISMISSED


@pytest.mark.parametrize(
    ("points", "kept"),
    [
        ([], "xxxxxxxxxxxxxxxxxxxx"),
        ([at(5, OPEN)], "xxxxx..............."),
        ([at(5, ACCEPTED)], ".....xxxxxxxxxxxxxxx"),
        ([at(5, DISMISSED)], "xxxxx..............."),
        ([at(5, DISMISSED, 8)], "xxxxx...xxxxxxxxxxxx"),
        ([at(5, OPEN), at(10, ACCEPTED)], "..........xxxxxxxxxx"),
        ([at(5, ACCEPTED), at(10, OPEN)], ".....xxxxx.........."),
        ([at(5, ACCEPTED), at(10, ACCEPTED)], "..........xxxxxxxxxx"),
        ([at(5, DISMISSED), at(8, ACCEPTED)], "........xxxxxxxxxxxx"),
        # the recovery from a bad week was found as a step too, and is none
        ([at(5, DISMISSED, 8), at(8, OPEN)], "xxxxx...xxxxxxxxxxxx"),
        ([at(5, DISMISSED, 8), at(6, DISMISSED)], "xxxxx...xxxxxxxxxxxx"),
        ([at(5, DISMISSED, 8), at(12, OPEN)], "xxxxx...xxxx........"),
        ([at(5, DISMISSED, 8), at(6, ACCEPTED)], "........xxxxxxxxxxxx"),
        # found for a cell and for all at one moment: accepting one settles that moment
        ([at(5, ACCEPTED), at(5, OPEN)], ".....xxxxxxxxxxxxxxx"),
    ],
)
def test_days_of_the_baseline(points: list[ChangePoint], kept: str) -> None:
    assert days(*points) == kept
    assert days(*reversed(points)) == kept


def test_who_looks_for_changes_sees_what_follows_an_open_one_but_no_dismissed_week() -> None:
    assert days(at(5, OPEN), at(8, DISMISSED, 10), include_after_open=True) == "xxxxxxxx..xxxxxxxxxx"


def test_a_point_of_one_cell_is_of_that_cell_alone() -> None:
    common, own = windows([change(5 * DAY, cell=CELLS[0]), change(DAY, state=ACCEPTED)])
    assert (common.begin, common.end) == (DAY, math.inf)
    assert {cell: (one.begin, one.end) for cell, one in own.items()} == {CELLS[0]: (DAY, 5 * DAY)}
