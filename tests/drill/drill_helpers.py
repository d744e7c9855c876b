"""What the tests of the drill share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from rankmuster.drill.job import DrillJob

FAKE_RANK = (sys.executable, str(Path(__file__).with_name("fake_rank.py")))
PATIENCE = 20.0
"""Seconds for what takes a fraction of one on a machine that has other work."""

MakeJob = Callable[..., DrillJob]


def until(there: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end, f"not {what} within {PATIENCE:.0f} s"
        time.sleep(0.01)


def ended(pid: int) -> bool:
    """Gone, or a zombie that an init without manners has not reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
