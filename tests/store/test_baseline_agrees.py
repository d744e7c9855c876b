"""The store and the judge say the same of which runs are the baseline, whatever was marked and decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from history_made import CELLS, DAY, START, change, hash_of, run
from rankmuster.baseline.applicable import applicable
from rankmuster.baseline.build_history import build_history
from rankmuster.baseline.regimes import group_of
from rankmuster.model.history import ChangePoint, ChangeState
from rankmuster.store.history import History

CELL = CELLS[-1]
CLASSES = count()
MOMENTS = st.integers(0, 24).map(lambda half: START + half * DAY / 2)


@st.composite
def points(draw: st.DrawFn) -> ChangePoint:
    state = draw(st.sampled_from(list(ChangeState)))
    at = draw(MOMENTS)
    until = draw(st.none() | MOMENTS) if state is ChangeState.DISMISSED else None
    return change(at, cell=draw(st.sampled_from([None, CELL])), state=state, until=until)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(points(), max_size=4))
def test_store_and_judge_agree(history: History, found: Sequence[ChangePoint]) -> None:
    own = hash_of(f"class {next(CLASSES)}")
    runs = [run(number, class_hash=own, cells=[CELL]) for number in range(12)]
    history.put_many(runs)
    for point in found:
        history.put_change(replace(point, class_hash=own))
    read = history.class_history(own, runs[0].profile)
    marked = history.changes(class_hash=own)
    all_runs = build_history(runs, change_points=marked)
    judged = all_runs.started_at[applicable(all_runs, group_of(CELL))]
    stored = read.started_at[np.unique(read.cells[CELL].run)] if CELL in read.cells else np.empty(0)
    assert stored.tolist() == judged.tolist()
    # what the store has read is judged by whole
    assert applicable(read, group_of(CELL))[read.cells[CELL].run if CELL in read.cells else []].all()


def test_a_dismissed_week_and_its_step_back_leave_the_rest_to_be_judged_by() -> None:
    week = change(START + 3 * DAY, state=ChangeState.DISMISSED, until=START + 6 * DAY)
    for back in (START + 6 * DAY, START + 6 * DAY - 3600):
        history = build_history([run(number, cells=[CELL]) for number in range(12)], change_points=[week, change(back)])
        kept = applicable(history, group_of(CELL))
        assert np.flatnonzero(~kept).tolist() == [3, 4, 5]
