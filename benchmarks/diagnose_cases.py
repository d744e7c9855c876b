"""Wall time and peak memory of the command per case, and of `--help`, each beside a bare interpreter in the same run.

    python benchmarks/diagnose_cases.py [FOLDER OF CASES]

Times are the best of three; the ratio to a bare interpreter is what can be compared between machines.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 3


def measure(command: list[str]) -> tuple[float, float]:
    """(seconds, peak MiB) of the best of RUNS."""
    best, peak = float("inf"), 0.0
    for _ in range(RUNS):
        with tempfile.TemporaryFile() as out:
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=out, stderr=out)
            _, _, usage = os.wait4(process.pid, 0)
            best = min(best, time.perf_counter() - start)
            peak = max(peak, usage.ru_maxrss / 1024)
    return best, peak


def main() -> None:
    cases = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests" / "cases"
    command = str(Path(sys.executable).parent / "rankmuster")
    bare, _ = measure([sys.executable, "-c", "pass"])
    print(f"{'':34} {'seconds':>8} {'x bare':>7} {'MiB':>6}")
    for name, call in (("bare interpreter", [sys.executable, "-c", "pass"]), ("--help", [command, "--help"])):
        seconds, memory = measure(call)
        print(f"{name:34} {seconds:8.2f} {seconds / bare:7.1f} {memory:6.0f}")
    slowest, largest = 0.0, 0.0
    for truth in sorted(cases.glob("*/truth.json")):
        case = next(path for path in (truth.parent / "input", truth.parent / "input.tar.zst") if path.exists())
        seconds, memory = measure([command, "diagnose", str(case), "--format", "json"])
        slowest, largest = max(slowest, seconds), max(largest, memory)
        print(f"{truth.parent.name:34} {seconds:8.2f} {seconds / bare:7.1f} {memory:6.0f}")
    print(f"{'slowest, largest':34} {slowest:8.2f} {slowest / bare:7.1f} {largest:6.0f}")


main()
