"""Whole drills on one machine: real ranks, watch and runbook, from the command to the card.

Needs torch and the journal, which other tests do without: `pip install '.[real,history]'`. HAProxy is left out, as
where it is not installed.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from card_helpers import DRILL, LACKS_REAL, card_in, drilled
from drill_helpers import PATIENCE

pytestmark = pytest.mark.skipif(
    LACKS_REAL,
    reason="torch or SQLAlchemy is not installed (pip install '.[real,history]')",
)


def test_a_fault_is_told_named_saved_and_mended(tmp_path: Path) -> None:
    out = tmp_path / "drill"
    more = ("--backend", "gloo", "--ranks", 3, "--period", 2, "--no-gateway", "--controls", "none")
    shown = drilled("run", "kill", "--target", "built-in", *more, "--output", out, status=2)
    assert shown.startswith("NOT ENOUGH")  # without controls it proves nothing
    card = card_in(out)
    (kill,) = card.runs
    assert kill.wrongs == ()
    assert (kill.said_class, kill.culprits) == ("process_or_device_lost", (1,))
    assert (kill.evidence_first, kill.service_back, kill.again) == (True, True, True)
    assert card.complete
    assert any(name.startswith("TORCH_") for name in card.settings)
    assert "1 of 1 bundles give the same verdict" in drilled("verify", out, status=0)


def test_ctrl_c_ends_everything_and_leaves_the_card_of_what_was_done(tmp_path: Path) -> None:
    out = tmp_path / "drill"
    line = [*DRILL, "run", "stop", "--target", "built-in", "--ranks", "2", "--no-gateway", "--output", str(out)]
    drill = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _until(lambda: len(_processes_of(out)) >= 5, "supervisor, watch, runner and ranks are there")
        drill.send_signal(signal.SIGTERM)
        _, said = drill.communicate(timeout=90)
        assert drill.returncode == 130
        assert "ended early" in said
        _until(lambda: not _processes_of(out), "all of them are gone")
    finally:
        drill.kill()
        drill.wait()
    card = card_in(out)
    assert (card.complete, card.passed) == (False, None)
    assert drilled("report", out, status=2).startswith("NOT ENOUGH")


def _processes_of(folder: Path) -> list[str]:
    """Command lines of living processes that name the folder, but for the drill's own."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in line and "drill run" not in line:
                found.append(line)
    return found


def _until(there: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 3 * PATIENCE
    while not there():
        assert time.monotonic() < end, f"it did not come about that {what}"
        time.sleep(0.1)
