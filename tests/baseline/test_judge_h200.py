"""What real runs are called: healthy machines are admitted, changed ones refused, with seven runs of history."""

from __future__ import annotations

import random

import pytest
from h200_runs import CHANGED, captured, healthy, history

from rankmuster.baseline.floors import FloorInput
from rankmuster.baseline.judge import judge
from rankmuster.model.judgement import Regime, Standing

PLATEAU = (Regime.PLATEAU,)


@pytest.mark.parametrize("left_out", range(8))
def test_a_healthy_run_is_within_the_seven_others(left_out: int) -> None:
    runs = healthy()
    judged = judge([runs.pop(left_out)], history(runs))
    assert [j.regime for j in judged] == [Regime.LATENCY, Regime.TRANSITION, Regime.PLATEAU] * 2
    assert {j.standing for j in judged} == {Standing.WITHIN}
    assert all(j.samples == 7 and j.nodes == 1 for j in judged)


def test_healthy_runs_are_within_histories_drawn_from_them() -> None:
    rng = random.Random(7)
    for _ in range(25):
        known = history(rng.choices(healthy(), k=20))
        for run in healthy():
            standings = {j.standing for j in judge([run], known)}
            assert standings == {Standing.WITHIN}, run.source


@pytest.mark.parametrize("name", ["nt_ar_1", "nt_ar_2", "nt_ar_3"])
def test_per_iteration_timing_alone_refuses_nobody(name: str) -> None:
    assert {j.standing for j in judge([captured(name)], history(healthy()))} == {Standing.WITHIN}


@pytest.mark.parametrize("left_out", range(8))
@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_machine_is_refused_at_large_sizes(name: str, left_out: int) -> None:
    runs = healthy()
    runs.pop(left_out)
    judged = [j for j in judge([captured(name)], history(runs)) if j.regime in PLATEAU]
    assert {j.standing for j in judged} == {Standing.BELOW}
    assert all(j.can_refuse and j.statistic is not None and j.statistic < 0.5 for j in judged)
    assert all("GB/s at" in j.reason and "where the class has" in j.reason for j in judged)


def test_contention_slows_small_sizes_too_and_that_alone_refuses_nobody() -> None:
    judged = judge([captured("ar_contended")], history(healthy()))
    latency = [j for j in judged if j.regime is Regime.LATENCY]
    assert {j.standing for j in latency} == {Standing.BELOW}
    assert not any(j.can_refuse for j in latency)
    assert all("1 of the 5 fresh processes" in j.reason for j in latency)


def test_either_mode_of_a_small_size_is_health() -> None:
    """Runs 5 and 7 are of the fast mode (28 us), the others of the slow one (40 us)."""
    slow = history([run for number, run in enumerate(healthy(), 1) if number not in (5, 7)])
    for number in (5, 7):
        standings = {j.standing for j in judge([captured(f"ar_{number}")], slow)}
        assert standings == {Standing.WITHIN}


@pytest.mark.parametrize("name", CHANGED)
def test_without_history_the_floor_of_the_hardware_refuses_what_is_plain(name: str) -> None:
    judged = judge([captured(name)], None, floor=FloorInput("NVIDIA H200", 4))
    by_regime = {j.regime: j for j in judged}
    assert by_regime[Regime.PLATEAU].standing is Standing.BELOW
    assert "NVLink 4, 18 x 25" in (by_regime[Regime.PLATEAU].floor or "")
    assert by_regime[Regime.LATENCY].standing is Standing.TOO_LITTLE


def test_a_healthy_machine_without_history_is_above_its_floor_and_still_undecided() -> None:
    for run in healthy():
        judged = judge([run], history(healthy()[:4]), floor=FloorInput("NVIDIA H200", 4))
        assert {j.standing for j in judged} == {Standing.TOO_LITTLE}
        assert all("4 runs of history, 5 are needed" in j.reason for j in judged)


def test_without_history_and_hardware_nothing_can_be_said() -> None:
    judged = judge(healthy()[:1], None)
    assert {j.standing for j in judged} == {Standing.TOO_LITTLE}
    assert all(j.floor is None and "nothing to compare with" in j.reason for j in judged)


def test_of_unknown_links_there_is_no_floor_and_that_is_said() -> None:
    judged = judge(healthy()[:1], None, floor=FloorInput("Some Accelerator 9000", 4))
    plateau = [j for j in judged if j.regime is Regime.PLATEAU]
    assert all("no floor: how the GPUs of Some Accelerator 9000 are joined is not known" in j.reason for j in plateau)
