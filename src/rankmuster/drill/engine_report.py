"""What an engine's launcher writes down when ranks have ended by themselves: torchrun's table, first failure last
(`torch/distributed/elastic/multiprocessing/errors/__init__.py`, torch 2.13)."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

WIDTH = 60


@dataclass(frozen=True, slots=True)
class Failed:
    """`code`: exit status, or -N for signal N. `at`: unix seconds at which the launcher saw it."""

    rank: int
    pid: int
    code: int
    at: float


def failure_table(failed: Sequence[Failed], host: str) -> str:
    """Of ranks that all run on `host`; at least one."""
    first, *others = sorted(failed, key=lambda one: one.at)
    rows = "\n".join(_row(number, one, host) for number, one in enumerate(others, 1)) or "  <NO_OTHER_FAILURES>"
    line, double = "-" * WIDTH, "=" * WIDTH
    parts = (double, "rankmuster.drill.worker FAILED", line, "Failures:", rows, line)
    return "\n".join((*parts, "Root Cause (first observed failure):", _row(0, first, host), double, ""))


def _row(number: int, one: Failed, host: str) -> str:
    time = datetime.fromtimestamp(one.at).strftime("%Y-%m-%d_%H:%M:%S")
    said = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    if one.code < 0:
        said = f"Signal {-one.code} ({signal.Signals(-one.code).name}) received by PID {one.pid}"
    lines = (
        f"[{number}]:",
        f"  time      : {time}",
        f"  host      : {host}",
        f"  rank      : {one.rank} (local_rank: {one.rank})",
        f"  exitcode  : {one.code} (pid: {one.pid})",
        "  error_file: <N/A>",
        f"  traceback : {said}",
    )
    return "\n".join(lines)
