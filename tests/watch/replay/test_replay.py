"""Signals through the real window, look and model: every stop is told in time, and no traffic calls anybody.

The whole table is made by `make watch-replay`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmuster.evidence.bundle import load
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.watch.progress.model import Event
from rankmuster.watch.replay.run import captured, day, inject, replay
from rankmuster.watch.replay.synthetic import EngineKind, Plan, StopKind
from rankmuster.watch.replay.traffic import Traffic

CASES = Path(__file__).parents[2] / "cases"
BOTH = frozenset({Plane.ENGINE, Plane.HARDWARE})
BAR_SECONDS = 15.0


@pytest.mark.parametrize("traffic", Traffic)
@pytest.mark.parametrize("planes", [BOTH, frozenset({Plane.ENGINE})], ids=["both", "engine"])
def test_no_traffic_is_a_stop(traffic: Traffic, planes: frozenset[Plane]) -> None:
    assert day(Plan(traffic, EngineKind.VLLM, planes, ranks=2, culprit=1), 2700, seed=5).alarms == ()


@pytest.mark.parametrize("planes", [BOTH, frozenset({Plane.ENGINE})], ids=["both", "engine"])
def test_an_engine_whose_gauges_follow_its_rest_late_has_not_stopped(planes: frozenset[Plane]) -> None:
    assert day(Plan(Traffic.BURSTY, EngineKind.SGLANG, planes, ranks=2, culprit=1), 2700, seed=5).alarms == ()


@pytest.mark.parametrize("stop", StopKind)
@pytest.mark.parametrize("engine", [EngineKind.VLLM, EngineKind.SGLANG])
def test_each_stop_is_told_in_time_and_its_culprit_where_one_can_be(stop: StopKind, engine: EngineKind) -> None:
    found = inject(Plan(Traffic.BUSY, engine, BOTH, stop, ranks=4), seed=11)
    assert found is not None
    assert found.seconds is not None
    assert found.seconds <= BAR_SECONDS
    assert not found.early
    assert found.named is not False


def test_where_counters_move_at_the_end_only_the_hardware_tells() -> None:
    plan = Plan(Traffic.BUSY, EngineKind.SGLANG_OLD, BOTH, StopKind.GRAPH, ranks=4)
    found = inject(plan, seed=11)
    assert found is not None
    assert found.seconds is not None
    assert found.seconds <= BAR_SECONDS


@pytest.mark.parametrize(
    "name", ["healthy-tp4", "healthy-graph", "idle", "prefill", "one-slow-rank", "collect-healthy"]
)
def test_a_capture_without_a_stop_calls_nobody(name: str) -> None:
    judged = list(replay(captured(load(CASES / name / "input.tar.zst")), BOTH))
    assert judged
    assert not [one for one in judged if one.judgement.event is Event.STOPPED]


@pytest.mark.parametrize("name", ["init-one-rank-never-joins", "init-no-interface"])
def test_a_start_that_hangs_is_a_start_for_as_long_as_starts_may_take(name: str) -> None:
    judged = list(replay(captured(load(CASES / name / "input.tar.zst")), BOTH))
    assert {one.judgement.state for one in judged} == {Progress.STARTING}


@pytest.mark.parametrize(
    "name",
    ["graph-replay-stops", "tp2-busy", "gpu-busy-before-collective", "python-loop", "link-cut-two-nodes", "pp-stop"],
)
def test_a_capture_of_a_stop_is_told_once(name: str) -> None:
    judged = list(replay(captured(load(CASES / name / "input.tar.zst")), BOTH))
    assert [one.judgement.event for one in judged if one.judgement.event is not None] == [Event.STOPPED]
    assert judged[-1].judgement.state is Progress.STOPPED


def test_a_restart_whose_weights_take_long_calls_nobody_where_gpus_alone_are_seen() -> None:
    """Bytes over PCIe for 80 s, then a barrier: once taken for work that had come to a stop."""
    plan = Plan(Traffic.RESTART, EngineKind.VLLM, frozenset({Plane.HARDWARE}), StopKind.LINK, ranks=4, culprit=1)
    found = inject(plan, seed=1098)
    assert found is not None
    assert not found.early
    assert found.seconds is not None
    assert found.seconds <= BAR_SECONDS


@pytest.mark.parametrize(("stop", "seed"), [(StopKind.LINK, 1098), (StopKind.LOOP, 1189), (StopKind.FROZEN, 1301)])
def test_scrapes_and_samples_that_fail_do_not_cost_the_bar(stop: StopKind, seed: int) -> None:
    found = inject(Plan(Traffic.SCRAPE_FAILURE, EngineKind.VLLM, BOTH, stop, ranks=4, culprit=1), seed=seed)
    assert found is not None
    assert found.seconds is not None
    assert found.seconds <= BAR_SECONDS
    assert found.named is not False


def test_a_stop_in_an_outage_of_all_that_could_show_it_is_counted_as_such() -> None:
    """Of an engine whose page cannot be had, nobody can say that it has stopped: blind is not stopped, nor healthy."""
    plan = Plan(Traffic.SCRAPE_FAILURE, EngineKind.VLLM, frozenset({Plane.ENGINE}), StopKind.ENGINE, ranks=2, culprit=1)
    found = [one for seed in (1287, 1329) if (one := inject(plan, seed=seed)) is not None]
    assert [one.silent for one in found if one.seconds is None] == [True] * len(found)
