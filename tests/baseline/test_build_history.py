"""A history's columns from its runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from h200_runs import healthy, stored

from rankmuster.baseline.build_history import build_history
from rankmuster.model.benchmark import RunState


def test_runs_are_ordered_by_time_and_only_complete_ones_count() -> None:
    runs = [stored(run, number) for number, run in enumerate(healthy())]
    runs[2] = replace(runs[2], state=RunState.CONTENDED)
    runs[5] = replace(runs[5], state=RunState.ERROR, values=())
    history = build_history(reversed(runs))
    assert history.records == tuple(run.record for run in runs if run.state is RunState.COMPLETE)
    assert history.kept_out == {"contended": 1, "error": 1}
    assert history.total == 6
    cell = runs[0].values[0].cell
    assert history.cells[cell].time_us[0] == runs[0].values[0].time_us
    assert np.array_equal(history.cells[cell].run, np.arange(6))
    assert np.isnan(history.cells[cell].min_us).all()


def test_other_classes_and_profiles_are_left_out() -> None:
    runs = [stored(run, number) for number, run in enumerate(healthy())]
    mixed = [*runs[:5], replace(runs[5], class_hash="other"), replace(runs[6], profile="other@1")]
    assert build_history(mixed, class_hash="class", profile="all-reduce@1").total == 5
    assert build_history(mixed, class_hash="other").total == 1


def test_of_nothing_an_empty_history() -> None:
    history = build_history([])
    assert (history.total, history.nodes, dict(history.cells)) == (0, (), {})
