"""Real recorders of real torch processes: the dumps of a hanging gloo job name its culprit, a moving one's nobody.

Needs torch, which the tests do without otherwise: `pip install '.[real]'`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from build_flight import culprits, suspects

from rankmuster.diagnose.run import Diagnosis, diagnose
from rankmuster.evidence.bundle import load
from rankmuster.model.fault import FaultClass, Subkind
from rankmuster.model.flight import FlightDump

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed (pip install '.[real]')"
)

RANKS = 4
PATIENCE = 50.0
"""Seconds for one job; importing torch four times on a small machine takes most of it."""


def run(folder: Path, scenario: str) -> None:
    """Plays one job to its dumps. No process of it outlives this."""
    for form in ("pickle", "json"):
        (folder / form / "flight").mkdir(parents=True)
    worker = Path(__file__).with_name("gloo_worker.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    logs = [(folder / f"stderr_{rank}").open("wb") for rank in range(RANKS)]
    ranks = [
        subprocess.Popen(
            [sys.executable, str(worker), str(rank), str(RANKS), str(folder), scenario],
            stdout=subprocess.DEVNULL,
            stderr=logs[rank],
            env=environment,
        )
        for rank in range(RANKS)
    ]
    try:
        for process in ranks:
            process.wait(PATIENCE)
    finally:
        for process in ranks:
            process.kill()
            process.wait()
        for log in logs:
            log.close()
    said = "\n".join((folder / f"stderr_{rank}").read_text(errors="replace")[-2000:] for rank in range(RANKS))
    assert len(list(folder.glob("look_*.json"))) == RANKS, said
    for form, ending in (("pickle", ""), ("json", ".json")):
        looks = {
            f"flight/fr_trace_rank_{rank}{ending}": json.loads((folder / f"look_{rank}.json").read_text())
            for rank in range(RANKS)
        }
        (folder / form / "manifest.json").write_text(json.dumps({"schema": "rankmuster.bundle/1", "look_times": looks}))


def judged(folder: Path, form: str) -> Diagnosis:
    evidence = load(folder / form)
    assert sorted(dump.rank or 0 for dump in evidence.of(FlightDump)) == list(range(RANKS))
    assert {dump.form for dump in evidence.of(FlightDump)} == {form}
    return diagnose(evidence)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stop")
    run(folder, "stop")
    return folder


@pytest.fixture(scope="module")
def skipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skip")
    run(folder, "skip")
    return folder


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("healthy")
    run(folder, "healthy")
    return folder


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_the_rank_that_stopped_calling(stopped: Path, form: str) -> None:
    found = judged(stopped, form)
    assert culprits(found) == [2]
    assert found.verdict.subclass is Subkind.MISSING_ENTER
    assert found.verdict.first_divergence is not None
    assert found.verdict.first_divergence.op == "all_reduce"


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_the_rank_that_skipped_one_and_waits_in_a_circle(skipped: Path, form: str) -> None:
    found = judged(skipped, form)
    assert culprits(found) == [2]
    assert found.verdict.subclass is Subkind.ORDER_CYCLE


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_nobody_in_a_job_that_moves(healthy: Path, form: str) -> None:
    found = judged(healthy, form)
    assert culprits(found) == []
    assert suspects(found) == []
    assert found.verdict.class_ in (FaultClass.HEALTHY, FaultClass.INCONCLUSIVE)
