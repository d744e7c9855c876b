"""What the judge says of one bad size, of doubt, of too few sizes, of the implausibly fast, and of odd input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated import LARGE, fleet, known, run

from rankmuster.baseline.judge import judge, judge_by
from rankmuster.baseline.simulate_fleet import Loss
from rankmuster.baseline.thresholds import JudgeSettings
from rankmuster.model.benchmark import BenchmarkRun, Measurement, Operation
from rankmuster.model.history import ChangePoint, ChangeState
from rankmuster.model.judgement import Regime, RegimeJudgement, Standing


def _one(judged: tuple[RegimeJudgement, ...], regime: Regime = Regime.PLATEAU) -> RegimeJudgement:
    return next(j for j in judged if j.regime is regime and j.operation is Operation.ALL_REDUCE)


def _changed(of: BenchmarkRun, factor: dict[int, float], *, least: int = 0) -> BenchmarkRun:
    """Times of the sizes from `least` on, multiplied."""

    def slower(m: Measurement) -> Measurement:
        by = factor.get(m.cell.size_bytes, factor.get(0, 1.0)) if m.cell.size_bytes >= least else 1.0
        return replace(m, time_us=m.time_us * by, busbw=m.busbw / by)

    return replace(of, measurements=tuple(slower(m) for m in of.measurements))


def test_one_bad_size_is_refused_and_named_though_the_level_is_that_of_the_class() -> None:
    one = fleet(1)
    judged = _one(judge_by([_changed(run(one), {64 << 20: 1.4})], known(one)))
    assert judged.standing is Standing.BELOW
    assert judged.statistic == pytest.approx(1.0, abs=0.03)
    assert judged.reason.startswith("one size stands out")
    assert "at 64 MiB where the class has" in judged.reason
    cell = next(c for c in judged.cells if c.cell.size_bytes == 64 << 20)
    assert cell.limit is not None
    assert cell.value < cell.limit
    assert cell.ratio == pytest.approx(1 / 1.4, abs=0.03)


def test_between_the_limits_a_node_is_measured_again_and_three_processes_decide() -> None:
    one = fleet(2)
    reference = known(one, 100, 100)
    clean = run(one)
    level = _one(judge_by([clean], reference))
    assert level.statistic is not None
    assert level.refuse_below is not None
    assert level.retest_below is not None
    aim = (level.refuse_below + level.retest_below) / 2
    doubtful = _changed(clean, {0: level.statistic / aim}, least=LARGE)
    first = _one(judge_by([doubtful], reference))
    assert first.standing is Standing.BORDERLINE
    assert "measured again in a fresh process" in first.reason
    assert _one(judge_by([doubtful, clean], reference)).standing is Standing.BORDERLINE
    assert _one(judge_by([doubtful, clean, clean], reference)).standing is Standing.WITHIN
    refused = _one(judge_by([doubtful, clean, doubtful], reference))
    assert refused.standing is Standing.BELOW
    assert refused.retest_below is None
    assert "after re-tests" in refused.reason


def test_the_implausibly_fast_is_no_pass_like_any_other() -> None:
    one = fleet(3)
    judged = _one(judge_by([_changed(run(one), {0: 0.8}, least=LARGE)], known(one)))
    assert judged.standing is Standing.ABOVE
    assert "may not have been measured" in judged.reason


def test_latency_counts_the_second_fastest_of_five_processes() -> None:
    one = fleet(4)
    reference = known(one)
    slow = _changed(run(one), {0: 3.0})
    alone = _one(judge_by([slow], reference), Regime.LATENCY)
    assert alone.standing is Standing.BELOW
    assert not alone.can_refuse
    assert _one(judge_by([slow] * 4 + [run(one)], reference), Regime.LATENCY).standing is Standing.BELOW
    five = _one(judge_by([slow] * 3 + [run(one), run(one)], reference), Regime.LATENCY)
    assert five.standing is Standing.WITHIN
    assert all(cell.unit == "us" for cell in five.cells)


def test_every_operation_placement_and_launch_is_judged_apart() -> None:
    one = fleet(5)
    slow = Loss(0.3, from_bytes=LARGE, operation=Operation.ALL_GATHER)
    judged = judge_by([run(one, slow)], known(one))
    below = [(j.operation, j.regime) for j in judged if j.standing is Standing.BELOW]
    assert below == [(Operation.ALL_GATHER, Regime.PLATEAU)]
    graphs = replace(run(one), measurements=tuple(_graph(m) for m in run(one).measurements))
    assert {j.standing for j in judge_by([graphs], known(one))} == {Standing.TOO_LITTLE}


def _graph(m: Measurement) -> Measurement:
    return replace(m, cell=replace(m.cell, graph=True))


def test_the_budget_is_one_for_the_admission() -> None:
    one = fleet(6)
    judged = judge_by([run(one)], known(one))
    refusing = [j.false_alarm for j in judged if j.can_refuse]
    assert len(refusing) == 4
    assert sum(rate or 0.0 for rate in refusing) == pytest.approx(0.01)
    fewer = replace(run(one), measurements=run(one).measurements[:16])
    alone = _one(judge_by([fewer], known(one)))
    assert alone.false_alarm == pytest.approx(0.005)


def test_sizes_without_history_are_listed_and_half_of_them_are_too_many() -> None:
    one = fleet(7)
    reference = known(one)
    other = _resized(run(one), {32 << 20: 48 << 20})
    judged = _one(judge_by([other], reference))
    assert judged.standing is Standing.WITHIN
    assert "not judged for want of history: 48 MiB" in judged.reason
    assert [c.center is None for c in judged.cells] == [False, True, False, False, False]
    most = _resized(run(one), {power << 20: (power << 20) + 4096 for power in (32, 64, 128)})
    assert _one(judge_by([most], reference)).standing is Standing.TOO_LITTLE


def _resized(of: BenchmarkRun, sizes: dict[int, int]) -> BenchmarkRun:
    def other(m: Measurement) -> Measurement:
        return replace(m, cell=replace(m.cell, size_bytes=sizes.get(m.cell.size_bytes, m.cell.size_bytes)))

    return replace(of, measurements=tuple(other(m) for m in of.measurements))


def test_times_that_are_no_times_are_as_if_not_measured() -> None:
    one = fleet(8)
    broken = tuple(
        replace(m, time_us=value) if m.cell.size_bytes >= LARGE else m
        for m, value in zip(run(one).measurements, [0.0, -1.0, float("nan"), float("inf")] * 8, strict=True)
    )
    judged = judge_by([replace(run(one), measurements=broken)], known(one))
    assert Regime.PLATEAU not in {j.regime for j in judged}
    assert judge([replace(run(one), measurements=())], None) == ()
    assert judge([], known(one).history) == ()


@pytest.mark.parametrize("state", [ChangeState.OPEN, ChangeState.DISMISSED])
def test_runs_after_a_change_that_nobody_accepted_are_not_the_baseline(state: ChangeState) -> None:
    one = fleet(9)
    settings = JudgeSettings()
    history = known(one, 60, 60).history
    middle = float(np.median(history.started_at))
    for cell in history.cells.values():
        cell.time_us[history.started_at >= middle] *= 1.2 if cell.cell.size_bytes >= LARGE else 1.0
    point = ChangePoint(history.class_hash, history.profile, None, middle, None, None, 30, state)
    healthy, slow = run(one), run(one, Loss(1 - 1 / 1.2, from_bytes=LARGE))
    marked = replace(history, change_points=(point,))
    assert _one(judge([healthy], marked, settings=settings)).standing is Standing.WITHIN
    assert _one(judge([slow], marked)).standing is Standing.BELOW
    over = replace(point, state=ChangeState.DISMISSED, until=middle + 1.0)
    assert _one(judge([healthy], replace(history, change_points=(over,)))).samples >= 59
    accepted = replace(history, change_points=(replace(point, state=ChangeState.ACCEPTED),))
    assert _one(judge([slow], accepted)).standing is Standing.WITHIN
    assert _one(judge([healthy], accepted)).standing is Standing.ABOVE


def test_a_node_that_ran_often_does_not_narrow_the_spread() -> None:
    """200 runs of one node say nothing of how nodes differ: the limit stays that of the assumed spread."""
    one = fleet(10)
    few, many = known(one, 20, 1), known(one, 200, 1)
    limits = [_one(judge_by([run(one)], reference)).retest_below or 0.0 for reference in (few, many)]
    assert limits[0] == pytest.approx(limits[1], abs=0.02)
    assert max(limits) < 0.95
    shown = _one(judge_by([run(one)], many))
    assert "all history is of one node" in shown.method
