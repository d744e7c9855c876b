"""What was done on a stop is counted when it was done, once, and the rank to look at first is named."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from build_snapshots import shown

from rankmuster.metrics.registry import Registry
from rankmuster.model.fault import FaultClass, Role, Subkind, SuspectKind
from rankmuster.model.frameworklog import DumpNotice, EngineWatchdog, LineOrigin, LogSpan, WatchdogTimeout
from rankmuster.model.verdict import Suspect
from rankmuster.model.verdict_json import suspect_to_plain
from rankmuster.watch.export.bundle_counts import BundleCounts
from rankmuster.watch.export.fill_signals import SignalMetrics
from rankmuster.watch.export.fill_stops import StopMetrics, first_odd
from rankmuster.watch.respond.notice import StopNotice
from rankmuster.watch.respond.outcome import Ended, HookEnded, StepEnding, StopOutcome
from rankmuster.watch.signals.signal import Counted

VERDICT: dict[str, Any] = {
    "schema": "rankmuster.verdict/1",
    "class": FaultClass.COLLECTIVE_DESYNC.value,
    "subclass": Subkind.MISSING_ENTER.value,
    "suspects": [
        {"kind": "rank", "rank": 0, "role": "victim"},
        {"kind": "rank", "rank": 3, "role": "culprit"},
        {"kind": "rank", "rank": 2, "role": "culprit"},
    ],
    "first_divergence": {"missing": [2, 3]},
}
ORIGIN = LineOrigin("log", 1, 0, 7, None, None)


def outcome(**changed: Any) -> StopOutcome:
    notice = object.__new__(StopNotice)  # nothing of it is counted
    values: dict[str, Any] = {
        "notice": notice,
        "number": 1,
        "folder": None,
        "collect": Ended(StepEnding.DONE, seconds=7.0),
        "diagnose": Ended(StepEnding.DONE, status=1),
        "hooks": (
            HookEnded("webhook", "pager", Ended(StepEnding.FAILED, "503")),
            HookEnded("command", "sh", Ended(StepEnding.DONE)),
        ),
        "bundle": Path("b"),
        "collectors": {"ras": "declined", "gpus": "done", "stacks": "denied"},
        "verdict": VERDICT,
    }
    assert set(values) | set(changed) <= {field.name for field in fields(StopOutcome)}
    return StopOutcome(**(values | changed))


def filled(*outcomes: StopOutcome) -> Registry:
    registry = Registry()
    metrics = StopMetrics(registry)
    metrics.begin("llm-0")
    for one in outcomes:
        metrics.take("llm-0", one)
    return registry


def test_how_each_step_and_collector_ended_is_counted() -> None:
    registry = filled(outcome())
    done = shown(registry, "rankmuster_responses_total", llm_instance="llm-0")
    assert {key for key, value in done.items() if value} == {
        "done collect",
        "done diagnose",
        "failed hook",
        "done hook",
    }
    assert done["failed collect"] == 0
    assert shown(registry, "rankmuster_collector_endings_total") == {
        "ras declined": 1,
        "gpus done": 1,
        "stacks denied": 1,
    }
    assert shown(registry, "rankmuster_collect_seconds_sum") == {"": 7}
    assert shown(registry, "rankmuster_verdicts_total", llm_instance="llm-0") == {"collective_desync missing_enter": 1}
    assert shown(registry, "rankmuster_first_odd_rank") == {"llm-0": 2}


def test_what_was_done_before_counts_no_second_time() -> None:
    again = outcome(
        collect=Ended(StepEnding.DONE, seconds=7.0, repeated=True),
        diagnose=Ended(StepEnding.DONE, repeated=True),
        hooks=(),
        repeated=True,
    )
    registry = filled(again)
    assert not any(shown(registry, "rankmuster_responses_total").values())
    assert shown(registry, "rankmuster_collector_endings_total") == {}
    assert shown(registry, "rankmuster_verdicts_total") == {}
    assert shown(registry, "rankmuster_first_odd_rank") == {"llm-0": 2}


def test_nothing_done_is_no_failure() -> None:
    registry = filled(
        outcome(
            collect=Ended(StepEnding.OFF),
            diagnose=Ended(StepEnding.NOT_DONE, "off"),
            hooks=(),
            verdict=None,
            collectors={},
        )
    )
    done = shown(registry, "rankmuster_responses_total", llm_instance="llm-0")
    assert {key for key, value in done.items() if value} == {"off collect", "not_done diagnose"}
    assert shown(registry, "rankmuster_collect_seconds_count") == {}
    assert shown(registry, "rankmuster_first_odd_rank") == {"llm-0": -1}


@pytest.mark.parametrize(
    ("verdict", "rank"),
    [
        (VERDICT, 2),
        ({**VERDICT, "suspects": []}, 2),
        ({"suspects": [{"role": "suspect", "rank": 5}, {"role": "suspect", "rank": None}]}, 5),
        ({"suspects": [{"role": "culprit", "kind": "node", "rank": None}], "first_divergence": None}, None),
        ({"suspects": [{"role": "victim", "rank": 1}]}, None),
        ({}, None),
        ({"suspects": "rank 3", "first_divergence": ["missing"]}, None),
        ({"suspects": [None, 3, {"role": "culprit", "rank": "0"}, {"role": "culprit", "rank": True}]}, None),
        ({"suspects": [], "first_divergence": {"missing": [-4, 1.5, 10**400]}}, None),
        ({"suspects": [], "first_divergence": {"missing": [4]}}, 4),
        ({"suspects": [suspect_to_plain(Suspect(kind=SuspectKind.RANK, rank=6, role=Role.CULPRIT, why="x"))]}, 6),
    ],
)
def test_the_first_odd_rank_is_the_culprit_else_who_is_missing_else_a_suspect(
    verdict: dict[str, Any], rank: int | None
) -> None:
    assert first_odd(verdict) == rank


def test_a_verdict_of_rubbish_is_counted_as_other() -> None:
    registry = filled(outcome(verdict={"class": ["a"], "subclass": {"b": 1}, "suspects": 7}))
    assert shown(registry, "rankmuster_verdicts_total", llm_instance="llm-0") == {"other other": 1}


def timeout(op: str | None) -> WatchdogTimeout:
    return WatchdogTimeout(ORIGIN, "0", None, 7, op, 1, 1, 600_000, 600_001)


def test_alarms_in_logs_are_counted_by_class_and_other_lines_are_not() -> None:
    registry = Registry()
    metrics = SignalMetrics(registry)
    metrics.begin("llm-0")
    assert set(shown(registry, "rankmuster_watchdog_timeouts_total").values()) == {0.0}
    for observation in (
        timeout("ALLREDUCE"),
        timeout("ALLREDUCE"),
        timeout("_ALLGATHER_BASE"),
        timeout(None),
        EngineWatchdog(ORIGIN, "vllm", 0, 60.0, "RPC call timed out"),
        EngineWatchdog(ORIGIN, "vllm", 0, 60.0, "no available block", weak=True),
        DumpNotice(ORIGIN, "0", True),
        DumpNotice(ORIGIN, "0", False, retry=True),
        LogSpan("log", 0, 9, None, None, None),
        "a word",
        None,
    ):
        metrics.heard("llm-0", observation)
    found = shown(registry, "rankmuster_watchdog_timeouts_total", llm_instance="llm-0")
    assert {key: value for key, value in found.items() if value} == {
        "all_reduce torch": 2,
        "all_gather torch": 1,
        "other torch": 1,
        "none engine": 1,
    }
    assert shown(registry, "rankmuster_flight_dumps_total", event="announced") == {"llm-0": 1}


def test_calls_and_steps_that_others_counted_are_added() -> None:
    registry = Registry()
    metrics = SignalMetrics(registry)
    labels = (("source", "inspector"), ("collective", "AllReduce"))
    metrics.counted("llm-0", Counted("collective", labels, (3e-5, 0.3), (100.0, 2.0)))
    metrics.counted("llm-0", Counted("collective", labels, (float("nan"),), (5.0,)))
    metrics.counted("llm-0", Counted("step", (("engine", "vllm"),), (0.02, 0.03)))
    metrics.bundle("llm-0", BundleCounts((), asked=4, taken=3))
    key = {"llm_instance": "llm-0", "source": "inspector", "collective": "all_reduce"}
    assert shown(registry, "rankmuster_collective_calls_total", **key) == {"": 107}
    assert shown(registry, "rankmuster_collective_seconds_count", **key) == {"": 102}
    assert shown(registry, "rankmuster_engine_step_seconds_count") == {"llm-0": 2}
    assert shown(registry, "rankmuster_flight_dumps_total", llm_instance="llm-0") == {"asked": 4, "taken": 3}


@pytest.mark.parametrize(
    "what",
    [
        Counted("weather", (), (1.0,)),
        Counted("step", (), (1.0, 2.0), (1.0,)),
        Counted("step", (), (-1.0, float("inf"), float("nan"), 1.0), (1.0, 1.0, 1.0, -2.0)),
        Counted("step", (), (1.0,), (float("nan"),)),
        Counted("step", (), (1e308, 1.0), (1.0, 1e308)),
        Counted("collective", (), ()),
    ],
)
def test_nonsense_is_left_out(what: Counted) -> None:
    registry = Registry()
    SignalMetrics(registry).counted("llm-0", what)
    assert shown(registry, "rankmuster_engine_step_seconds_count") == {}
    assert not any(shown(registry, "rankmuster_collective_calls_total").values())
