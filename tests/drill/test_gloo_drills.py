"""Real torch ranks with gloo: the fault is made, the dumps are asked for through the pipes, and the verdict names it.

Needs torch, which the tests do without otherwise: `pip install '.[real]'`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import time
import urllib.request
from pathlib import Path

import pytest
from drill_helpers import until
from stub_collect import stub_collect

from rankmuster.collect.bundle.verify import verify
from rankmuster.drill.fault_needs import obstacle
from rankmuster.drill.faults import fault_named
from rankmuster.drill.job import DrillJob
from rankmuster.drill.overhead import read_steps
from rankmuster.drill.plan import Backend, JobPlan
from rankmuster.drill.result import DrillResult
from rankmuster.drill.run import Order, collect_by_command, diagnose_by_command, run
from rankmuster.drill.surroundings import surroundings
from rankmuster.drill.truth import differences

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed (pip install '.[real]')"
)

LONG = pytest.mark.skipif(not os.environ.get("RANKMUSTER_LONG_TESTS"), reason="it is one of many: make drill-real")
"""What differs from its neighbours in little: not with every change."""

RANKS = 3
START_SECONDS = 60.0
SETTLE_SECONDS = 2.5
"""More than the tail of a moving job is old (2 s)."""
NO_LINK = obstacle(fault_named("link_cut"))
GONE_SECONDS = 1.0
"""For ranks whose peer is gone to notice."""


def interfaces() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def drill(fault: str, folder: Path, settle: float = SETTLE_SECONDS) -> DrillResult:
    order = Order(fault_named(fault), Backend.GLOO, RANKS, settle_seconds=settle, start_seconds=START_SECONDS)
    (result,) = run(order, {"": stub_collect}, folder / fault)
    return result


@pytest.mark.parametrize(
    ("fault", "settle"),
    [
        *((name, SETTLE_SECONDS) for name in ("skip", "order_swap", "stop")),
        *(pytest.param(name, SETTLE_SECONDS, marks=LONG) for name in ("extra_call", "wrong_op")),
        *((name, GONE_SECONDS) for name in ("kill", "exception", "wrong_interface")),
    ],
)
def test_the_culprit_is_named(fault: str, settle: float, tmp_path: Path) -> None:
    result = drill(fault, tmp_path, settle)
    assert result.right, result.to_json()
    assert result.named == (1,)


@pytest.mark.parametrize("fault", ["none", "skip", "stop", "kill", "freeze"])
def test_the_whole_chain_names_the_culprit(fault: str, tmp_path: Path) -> None:
    """The real collect, in a process of its own, and the real diagnose."""
    quiet = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    order = Order(fault_named(fault), Backend.GLOO, 4, start_seconds=START_SECONDS, extra=quiet)
    (result,) = run(order, {"": collect_by_command("--ras-risk", "always")}, tmp_path / fault)
    assert result.right, result.to_json()
    assert verify(Path(result.bundle)).ok
    assert result.seconds["collect"] < 30.0


def test_a_frozen_rank_is_named(tmp_path: Path) -> None:
    result = drill("freeze", tmp_path)
    assert result.right, result.to_json()


@pytest.mark.parametrize("fault", ["wrong_size", "wrong_dtype"])
def test_another_width_breaks_gloo_and_is_not_blamed_on_another(fault: str, tmp_path: Path) -> None:
    result = drill(fault, tmp_path, GONE_SECONDS)
    assert result.right, result.to_json()


@LONG
def test_a_send_that_nobody_receives_is_not_blamed_on_who_waits_in_it(tmp_path: Path) -> None:
    result = drill("no_recv", tmp_path)
    assert result.right, result.to_json()


@LONG
def test_a_rank_that_is_late_now_and_then_stops_nothing(tmp_path: Path) -> None:
    result = drill("tail", tmp_path)
    assert result.right, result.to_json()


@pytest.mark.skipif(bool(NO_LINK), reason=NO_LINK)
def test_a_link_that_is_cut_is_named_by_the_whole_chain_and_gone_afterwards(tmp_path: Path) -> None:
    before = interfaces()
    order = Order(fault_named("link_cut"), Backend.GLOO, RANKS, start_seconds=START_SECONDS)
    (result,) = run(order, {"": collect_by_command()}, tmp_path / "link_cut")
    assert result.right, result.to_json()
    assert interfaces() == before


def test_health_and_rest_are_told_apart_from_a_stop(tmp_path: Path) -> None:
    """One job: it moves, rests while there is no request, and moves again."""
    plan = JobPlan.small("drill-rest", RANKS, fault="idle", culprit=1, debug_server=True)
    folder = tmp_path / "job"
    with DrillJob(plan, surroundings(folder, plan.instance, Backend.GLOO, 0), folder) as job:
        job.wait_serving(START_SECONDS, steps=20)
        moving = diagnose_by_command(stub_collect(job, tmp_path / "moving"))
        assert differences(moving, fault_named("none").truth(Backend.GLOO), 1, 4) == ()
        assert job.inject(START_SECONDS) is not None
        before = job.steps
        resting = diagnose_by_command(stub_collect(job, tmp_path / "resting"))
        assert differences(resting, fault_named("idle").truth(Backend.GLOO), 1, 4) == ()
        assert job.steps == before
        job.resume()
        until(lambda: job.steps > before + 20, "moving again")
        _torch_answers_over_http(job)
        times = read_steps(job.steps_file.read_text())
    assert len(times.end) >= 4
    assert 0 < float(times.step.min()) < 1
    assert float(times.end[-1]) < time.monotonic()


def _torch_answers_over_http(job: DrillJob) -> None:
    """Each rank's worker server says what its recorder holds."""
    said = (job.folder / "logs" / "rank0.log").read_text()
    address = next(line.split()[-1] for line in said.splitlines() if line.startswith("worker server on "))
    request = urllib.request.Request(f"{address}/handler/fr_trace_json", method="POST")
    with urllib.request.urlopen(request, timeout=30) as reply:
        entries = json.loads(reply.read())["entries"]
    assert {entry["profiling_name"] for entry in entries} >= {"gloo:broadcast", "gloo:all_reduce"}


def test_a_rank_that_never_joins_is_not_taken_for_health(tmp_path: Path) -> None:
    result = drill("init_absent", tmp_path, GONE_SECONDS)
    assert result.right, result.to_json()
