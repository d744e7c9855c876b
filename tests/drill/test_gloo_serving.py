"""Real torch ranks with gloo that serve requests: they load, work, rest, and hang as an engine does.

Needs torch, which the tests do without otherwise: `pip install '.[real]'`.
"""

from __future__ import annotations

import importlib.util
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from drill_helpers import until

from rankmuster.drill.job import DrillJob
from rankmuster.drill.plan import Backend, Control, JobPlan, Serving
from rankmuster.drill.surroundings import surroundings
from rankmuster.drill.traffic import Traffic
from rankmuster.drill.usage import usage_of
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.engine_page import read
from rankmuster.model.engine import EnginePage, EngineStream

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed (pip install '.[real]')"
)

RANKS = 3
START_SECONDS = 90.0
TOKENS = "vllm:generation_tokens_total"
CACHE = "vllm:kv_cache_usage_perc"


def job(folder: Path, serving: Serving, fault: str = "none", **more: Any) -> DrillJob:
    plan = JobPlan.small("drill-serving", RANKS, fault=fault, culprit=1, serving=serving, **more)
    return DrillJob(plan, surroundings(folder, plan.instance, Backend.GLOO, 0), folder)


def seen(job: DrillJob) -> EngineStream:
    with urllib.request.urlopen(job.metrics_url or "", timeout=30) as page:
        reading = read(Blob("1795986513.prom", page.read()))
    (one,) = reading.observations
    assert isinstance(one, EnginePage)
    return one.streams[0]


def stands(job: DrillJob, seconds: float = 1.0) -> bool:
    before = job.steps
    time.sleep(seconds)  # that nothing happens takes time to see
    return job.steps == before


@pytest.mark.parametrize("control", list(Control))
def test_it_works_and_then_rests_without_spinning(control: Control, tmp_path: Path) -> None:
    serving = Serving(Traffic.IDLE, control=control, load_seconds=0.5)
    with job(tmp_path / "job", serving) as one:
        one.wait_serving(START_SECONDS)
        until(lambda: seen(one).steps[TOKENS] == 150 and seen(one).running == 0, "done with its three requests")
        assert stands(one)
        begun, before = time.monotonic(), [usage_of(pid).cpu for pid in one.pids.values()]
        time.sleep(1.0)
        spent = [usage_of(pid).cpu - was for pid, was in zip(one.pids.values(), before, strict=True)]
        assert max(spent) < 0.5 * (time.monotonic() - begun)
        assert "Loading weights took" in (one.folder / "logs" / "rank0.log").read_text()


@pytest.mark.parametrize("fault", ["stop", "loop", "no_send"])
def test_a_hang_leaves_the_page_as_it_was_with_requests_running(fault: str, tmp_path: Path) -> None:
    with job(tmp_path / "job", Serving(), fault) as one:
        one.wait_serving(START_SECONDS, steps=30)
        until(lambda: (seen(one).running or 0) > 0, "at work")
        assert one.inject(START_SECONDS) is not None
        until(lambda: stands(one, 0.5), "stopped")
        before = seen(one)
        assert stands(one)
        assert seen(one) == before
        assert (before.running or 0) > 0


def test_in_a_long_prompt_steps_are_made_and_only_the_cache_moves(tmp_path: Path) -> None:
    with job(tmp_path / "job", Serving(Traffic.LONG_PREFILL)) as one:
        one.wait_serving(START_SECONDS, steps=10)
        until(lambda: seen(one).gauges[CACHE] > 0.01, "reading")  # more than an ordinary request takes
        first, steps = seen(one), one.steps
        until(lambda: seen(one).gauges[CACHE] > first.gauges[CACHE], "reading on")
        second = seen(one)
        assert second.steps == first.steps
        assert second.running == 1
        assert one.steps > steps
