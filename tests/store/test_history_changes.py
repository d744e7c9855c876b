"""A step in a class's level is marked once, and moves the baseline only when a person says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from history_made import CELLS, CLASS, DAY, PROFILE, START, change, run
from rankmuster.model.history import ChangeState, ClassHistory
from rankmuster.store.errors import Refused
from rankmuster.store.history import History


def days(found: ClassHistory) -> list[int]:
    return [round((at - START) / DAY) for at in found.started_at]


@pytest.fixture
def ten_days(history: History) -> History:
    history.put_many(run(number) for number in range(10))
    return history


def test_a_change_point_comes_back_as_it_was_marked(history: History) -> None:
    put = history.put_change(change(START, cell=CELLS[1]))
    assert put.id is not None
    assert replace(put, id=None) == change(START, cell=CELLS[1])
    assert history.changes() == (put,)
    assert history.changes(class_hash=CLASS, profile=PROFILE, states=[ChangeState.OPEN]) == (put,)
    assert history.changes(states=[ChangeState.ACCEPTED]) == ()


def test_the_same_step_found_again_is_not_marked_again(history: History) -> None:
    first = history.put_change(change(START))
    assert history.put_change(change(START + 0.9 * DAY)) == first
    decided = history.set_change_state(first.id or 0, ChangeState.DISMISSED, note="a bad week")
    assert history.put_change(change(START)) == decided
    for other in (
        change(START + 1.1 * DAY),
        change(START, cell=CELLS[0]),
        change(START, after=110.0),
        replace(change(START), profile="another@0"),
    ):
        assert history.put_change(other).id != first.id
    assert len(history.changes()) == 5


def test_an_open_one_leaves_the_baseline_where_it_was(ten_days: History) -> None:
    ten_days.put_change(change(START + 6 * DAY))
    found = ten_days.class_history(CLASS, PROFILE)
    assert (days(found), found.total) == ([0, 1, 2, 3, 4, 5], 6)
    assert found.kept_out == {"outside_baseline": 4}
    assert [point.state for point in found.change_points] == [ChangeState.OPEN]
    assert days(ten_days.class_history(CLASS, PROFILE, include_after_open=True)) == list(range(10))


def test_an_accepted_one_begins_the_baseline(ten_days: History) -> None:
    point = ten_days.put_change(change(START + 6 * DAY))
    ten_days.set_change_state(point.id or 0, ChangeState.ACCEPTED, note="new firmware")
    found = ten_days.class_history(CLASS, PROFILE)
    assert (days(found), found.total) == ([6, 7, 8, 9], 4)
    assert found.change_points[0].note == "new firmware"


def test_a_dismissed_week_is_left_out_and_the_days_around_it_are_not(ten_days: History) -> None:
    point = ten_days.put_change(change(START + 3 * DAY))
    ten_days.set_change_state(point.id or 0, ChangeState.DISMISSED, until=START + 6 * DAY)
    assert days(ten_days.class_history(CLASS, PROFILE)) == [0, 1, 2, 6, 7, 8, 9]


def test_a_step_of_one_size_leaves_the_other_sizes_alone(ten_days: History) -> None:
    ten_days.put_change(change(START + 6 * DAY, cell=CELLS[0]))
    found = ten_days.class_history(CLASS, PROFILE, limit=3)
    assert found.cells[CELLS[1]].busbw.tolist() == [107.0, 108.0, 109.0]
    assert found.cells[CELLS[0]].busbw.tolist() == [103.0, 104.0, 105.0]
    assert days(found) == [3, 4, 5, 7, 8, 9]
    column = found.cells[CELLS[1]]
    assert [found.records[index] for index in column.run] == [run(number).record for number in (7, 8, 9)]


def test_a_decision_can_be_taken_back(ten_days: History) -> None:
    point = ten_days.put_change(change(START + 6 * DAY))
    number = point.id or 0
    ten_days.set_change_state(number, ChangeState.DISMISSED, until=START + 7 * DAY, note="switch")
    again = ten_days.set_change_state(number, ChangeState.OPEN)
    assert (again.state, again.until, again.note) == (ChangeState.OPEN, None, "switch")


def test_what_cannot_be_decided_is_said(history: History) -> None:
    with pytest.raises(Refused, match="no change point 7"):
        history.set_change_state(7, ChangeState.ACCEPTED)
    point = history.put_change(change(START))
    with pytest.raises(Refused, match="before it"):
        history.set_change_state(point.id or 0, ChangeState.DISMISSED, until=START - 1)
    with pytest.raises(Refused, match="no number"):
        history.put_change(change(START, after=float("nan"), cell=CELLS[0]))
