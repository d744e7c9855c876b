"""The rates of docs/measured.md in small, through the real judge, with wide margins for few admissions."""

from __future__ import annotations

import pytest
from simulated import LARGE, fleet

from rankmuster.baseline.simulate_admission import Design, growth, trial
from rankmuster.baseline.simulate_fleet import HEALTHY, Loss
from rankmuster.baseline.simulate_studies import questions


@pytest.mark.parametrize(("runs", "nodes"), [(5, 5), (30, 30), (30, 6), (30, 1), (200, 200)])
def test_healthy_nodes_are_rarely_refused(runs: int, nodes: int) -> None:
    tally = trial(fleet(runs + nodes), Design(runs, nodes), HEALTHY, histories=20, nodes=10)
    assert tally.admissions == 200
    assert tally.refused <= 7  # 1 % are 2; nodes of one history share its luck
    assert tally.above <= 3
    assert tally.too_little == 0


@pytest.mark.parametrize("nodes", [30, 6, 1])
def test_a_tenth_less_bandwidth_is_found_with_thirty_runs(nodes: int) -> None:
    tally = trial(fleet(nodes), Design(30, nodes), Loss(0.10, from_bytes=LARGE), histories=10, nodes=12)
    assert tally.refused >= 0.97 * tally.admissions


def test_and_with_a_fifth_of_bad_nodes_in_the_history() -> None:
    fault = Loss(0.10, from_bytes=LARGE)
    tally = trial(fleet(3), Design(30, 30, 0.2, fault), fault, histories=8, nodes=12)
    assert tally.refused >= 0.97 * tally.admissions


def test_small_losses_are_found_more_often_the_larger_they_are() -> None:
    found = [
        trial(fleet(4), Design(30, 30), Loss(loss, from_bytes=LARGE), histories=6, nodes=12).percent("refused")
        for loss in (0.01, 0.04, 0.07)
    ]
    assert found[0] < 10 < found[1] < found[2]
    assert found[2] > 90


def test_a_slow_latency_refuses_nobody() -> None:
    slow = Loss(0.6, to_bytes=64 << 10)
    tally = trial(fleet(5), Design(30, 30), slow, histories=4, nodes=10, processes=5)
    assert tally.latency >= 0.95 * tally.admissions
    assert tally.refused <= 2


def test_a_fleet_learns_from_its_first_day_and_finds_its_bad_nodes() -> None:
    days = growth(fleet(6, nodes=200), per_day=12, bad_share=0.05, loss=Loss(0.15, from_bytes=LARGE), limit=300)
    healthy, bad = (sum((day[kind] for day in days), start=type(days[0][0])()) for kind in (0, 1))
    assert healthy.admissions > 250
    assert healthy.refused <= 8
    assert bad.refused == bad.admissions > 5


def test_the_same_seed_gives_the_same_answer() -> None:
    question = questions()[0]
    assert question.ask(7, 0.005) == question.ask(7, 0.005)
