"""The same runs are the same baseline, in whatever order they were stored and wherever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from history_made import CELLS, CLASS, PROFILE, START, run
from rankmuster.model.benchmark import HistoryRun
from rankmuster.store.history import History

TIED = [run(number, node=f"node-{number % 3}", at=START, busbw=100.0 + number % 7) for number in range(24)]
"""Twenty-four runs whose files say the same start, as an import of old logs has them."""


def read(history: History, runs: Sequence[HistoryRun]) -> tuple[object, ...]:
    for one in runs:
        history.put(one)
    found = history.class_history(CLASS, PROFILE, limit=10, runs_per_node=4)
    return found.records, found.nodes, found.cells[CELLS[0]].busbw.tolist()


@pytest.mark.parametrize("order", [TIED[::-1], TIED[12:] + TIED[:12], sorted(TIED, key=lambda one: one.record)])
def test_the_order_of_storing_changes_nothing(history: History, tmp_path: Path, order: list[HistoryRun]) -> None:
    with History.open(f"{tmp_path}/other.db") as other:
        assert read(history, order) == read(other, TIED)
