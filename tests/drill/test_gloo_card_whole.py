"""Whole drills with controls, and of a job of one's own: minutes each, run by `make drill-real`, not with every change.

Needs torch and the journal, which other tests do without: `pip install '.[real,history]'`. HAProxy is left out, as
where it is not installed.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from card_helpers import DRILL, LACKS_REAL, card_in, drilled

from rankmuster.drill.apart import ALLOWED
from rankmuster.drill.incident_load import Load
from rankmuster.drill.incident_stand import Stand, StandOrder
from rankmuster.drill.plan import Backend
from rankmuster.drill.watched import sees_work

pytestmark = pytest.mark.skipif(
    not os.environ.get("RANKMUSTER_LONG_TESTS") or LACKS_REAL,
    reason="it takes minutes: make drill-real",
)


def test_a_fault_is_told_named_saved_and_mended_and_a_control_is_quiet(tmp_path: Path) -> None:
    out = tmp_path / "drill"
    more = (
        "--backend",
        "gloo",
        "--ranks",
        3,
        "--period",
        2,
        "--no-gateway",
        "--quick",
        "--controls",
        "healthy,restart",
    )
    shown = drilled("run", "kill", "--target", "built-in", *more, "--output", out, status=2)
    assert shown.startswith("NOT ENOUGH")  # two of five controls
    card = card_in(out)
    kill, *controls = card.runs
    assert kill.wrongs == ()
    assert (kill.said_class, kill.culprits) == ("process_or_device_lost", (1,))
    assert (kill.evidence_first, kill.service_back, kill.again) == (True, True, True)
    assert [(one.name, one.alarms, one.incidents, one.wrongs) for one in controls] == [
        ("healthy", (), 0, ()),
        ("restart", (), 0, ()),
    ]
    assert card.complete
    assert any(name.startswith("TORCH_") for name in card.settings)
    assert "1 of 1 bundles give the same verdict" in drilled("verify", out, status=0)


def test_a_job_of_ones_own_is_hit_once_and_scored_by_its_own_watch_and_runbook(tmp_path: Path) -> None:
    """The drill's own engine stands for a user's job: started by somebody else, and marked."""
    name = f"own-{os.getpid()}"
    wanted = StandOrder(name, Backend.GLOO, 3, period=2.0, gateway=False, extra={ALLOWED: name})
    out = tmp_path / "drill"
    with Stand(wanted, tmp_path / "stand", None) as stand:
        stand.until(lambda: stand.serves(1), 120.0, "serving")
        load = Load(stand.address, 3, tmp_path / "attempts.jsonl")
        load.start()
        try:
            assert sees_work(stand.watcher, time.monotonic(), 60.0)
            about = stand.about(1)
            assert about is not None
            places = ("--state", stand.places.watch, "--journal", stand.places.journal)
            shown = drilled("run", "freeze", "--target", name, *places, "--output", out, "--dry-run", status=0)
            assert f"SIGSTOP to pid {about.ranks[1]} " in shown
            refused = subprocess.run(
                [*DRILL, "run", "freeze", "--target", name, *map(str, places), "--output", str(out)],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
            )
            assert refused.returncode == 3
            assert "give --yes to do it" in refused.stderr
            drilled("run", "freeze", "--target", name, *places, "--output", out, "--yes", status=0)
        finally:
            load.stop(0.0)
    card = card_in(out)
    freeze = next(run for run in card.runs if run.kind == "fault")
    assert freeze.wrongs == ()
    assert (freeze.backend, freeze.culprits, freeze.detected_by) == ("own", (1,), "watch")
    assert (freeze.evidence_first, freeze.service_back, freeze.again) == (True, True, True)
    assert (card.target, card.passed) == (name, True)
