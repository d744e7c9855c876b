"""Changes of a class: a rollout is found and marked open; a faulty node, other nodes or a single day are no change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated import LARGE, fleet

from rankmuster.baseline.changepoints import find_changes
from rankmuster.baseline.simulate_fleet import DAY_S, START_S, Loss
from rankmuster.model.benchmark import Operation
from rankmuster.model.history import ChangeState, ClassHistory


def _class(
    seed: int,
    nodes: np.ndarray,
    day: np.ndarray,
    *,
    slow: np.ndarray | None = None,
    loss: float = 0.05,
    said: np.ndarray | None = None,
) -> ClassHistory:
    """Runs of `nodes` on days that may be broken; those marked in `slow` lose `loss` at large sizes. `said`: the days
    by the nodes' clocks, where those are wrong."""
    one = fleet(seed, nodes=int(nodes.max()) + 1)
    times = one.times(nodes, day.astype(np.int64), one.session(len(nodes)), contended=False)
    if slow is not None:
        times[slow] *= np.exp(one.slower(Loss(loss, from_bytes=LARGE)))
    return one.history(times, nodes, START_S + DAY_S * (day if said is None else said))


def _runs(seed: int, runs: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, nodes, runs), np.sort(rng.random(runs) * 30)


def test_a_rollout_is_one_open_point_of_the_profile_with_both_levels() -> None:
    nodes, day = _runs(1, 600, 60)
    (point,) = find_changes(_class(1, nodes, day, slow=day >= 18))
    assert point.state is ChangeState.OPEN
    assert point.cell is None
    assert (point.at - START_S) / DAY_S == pytest.approx(18, abs=1)
    assert point.before is not None
    assert point.after is not None
    assert point.after / point.before == pytest.approx(0.95, abs=0.01)
    assert point.nodes > 40
    assert "nodes with runs before and after show it" in point.note


def test_a_steady_class_has_no_change() -> None:
    for seed in range(6):
        nodes, day = _runs(seed, 400, 50)
        assert find_changes(_class(seed, nodes, day)) == ()


def test_one_faulty_node_is_no_change_of_its_class() -> None:
    nodes, day = _runs(2, 600, 30)
    assert find_changes(_class(2, nodes, day, slow=(nodes == 7) & (day >= 15), loss=0.3)) == ()


def test_one_bad_day_is_no_change() -> None:
    nodes, day = _runs(3, 600, 60)
    assert find_changes(_class(3, nodes, day, slow=(day >= 14) & (day < 15), loss=0.2)) == ()


def test_a_bad_week_has_two_ends() -> None:
    nodes, day = _runs(4, 900, 60)
    points = find_changes(_class(4, nodes, day, slow=(day >= 12) & (day < 19)))
    assert [round((p.at - START_S) / DAY_S) for p in points] == pytest.approx([12, 19], abs=1)
    assert points[0].after == pytest.approx(points[1].before)


def test_one_operation_alone_is_a_point_of_its_own_cell() -> None:
    nodes, day = _runs(5, 600, 60)
    history = _class(5, nodes, day)
    for cell, column in history.cells.items():
        if cell.operation is Operation.ALL_GATHER and cell.size_bytes >= LARGE:
            column.time_us[history.started_at >= START_S + 18 * DAY_S] *= 1.05
    (point,) = find_changes(history)
    assert point.cell is not None
    assert (point.cell.operation, point.cell.size_bytes) == (Operation.ALL_GATHER, 256 << 20)


def test_other_nodes_later_are_no_change_however_slow_they_are() -> None:
    """Five nodes in the first half of the month, five others in the second: no node says that the class has changed."""
    rng = np.random.default_rng(6)
    day = np.sort(rng.random(200) * 30)
    nodes = np.where(day < 15, rng.integers(0, 5, 200), rng.integers(5, 10, 200))
    assert find_changes(_class(6, nodes, day)) == ()
    assert find_changes(_class(7, nodes, day, slow=day >= 15, loss=0.15)) == ()


@pytest.mark.parametrize("back", [5, 15, 20, 400])
def test_a_slow_node_with_its_clock_behind_is_no_change_of_its_class(back: int) -> None:
    """Twelve nodes, a run a day of each; one gets slow on day 15, and its clock says that this was `back` days ago."""
    nodes, day = np.tile(np.arange(12), 30), np.repeat(np.arange(30.0), 12) + 0.01
    slow = (nodes == 2) & (day >= 15)
    said = np.where(slow, day - back, day)
    assert find_changes(_class(10, nodes, day, slow=slow, loss=0.1, said=said)) == ()


def test_a_few_nodes_that_alone_were_measured_before_are_no_level_of_the_class() -> None:
    """Three of twelve, slow until the others join them."""
    nodes, day = np.tile(np.arange(12), 30), np.repeat(np.arange(30.0), 12)
    use = (day >= 12) | (nodes < 3)
    slow = (nodes < 3) & (day < 12)
    assert find_changes(_class(11, nodes[use], day[use], slow=slow[use], loss=0.1)) == ()


def test_half_of_two_nodes_is_no_class_and_both_are() -> None:
    nodes, day = np.tile(np.arange(2), 30), np.repeat(np.arange(30.0), 2)
    assert find_changes(_class(12, nodes, day, slow=(nodes == 1) & (day >= 15), loss=0.1)) == ()
    (point,) = find_changes(_class(12, nodes, day, slow=day >= 15, loss=0.1))
    assert point.nodes == 2


def test_a_rollout_is_found_where_nodes_are_measured_every_two_weeks() -> None:
    nodes, day = _runs(13, 600, 300)
    (point,) = find_changes(_class(13, nodes, day, slow=day >= 18))
    assert (point.at - START_S) / DAY_S == pytest.approx(18, abs=1)


def test_a_single_node_of_a_laboratory_is_seen_within_the_hour() -> None:
    nodes, day = np.zeros(40, dtype=np.int64), np.arange(40) / (24 * 60)
    (point,) = find_changes(_class(8, nodes, day, slow=np.arange(40) >= 25, loss=0.08))
    assert "a single node: it or the class has changed" in point.note
    assert point.nodes == 1


def test_too_little_history_shows_nothing() -> None:
    nodes, day = _runs(9, 600, 60)
    few = _class(9, nodes[:5], day[:5])
    assert find_changes(few) == ()
    assert find_changes(replace(few, cells={})) == ()
