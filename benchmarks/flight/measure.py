"""Wall time and peak memory of a command, and the machine they were measured on."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

LONGEST_SECONDS = 600.0
"""What hangs is ended then, and told; torch's analyser takes a minute and a half for the largest folder it is given."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the fastest of some runs: wall and processor seconds; `peak_mb`: the largest resident set of any, in MB.

    Of what the command starts, these know only what it waited for: see `family_peak_mb`.
    """

    seconds: float
    cpu_seconds: float
    peak_mb: float
    status: int
    first_line: str


def measure(command: Sequence[str | Path], runs: int = 1, env: Mapping[str, str] | None = None) -> Cost:
    """Runs a command `runs` times to its end; output goes to a file, as it would through a pipe."""
    best, cpu, peak, status, first = float("inf"), float("inf"), 0.0, 0, ""
    for _ in range(runs):
        with tempfile.TemporaryFile() as out:
            start = time.perf_counter()
            process = subprocess.Popen(
                list(map(str, command)),
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
            watch = threading.Timer(LONGEST_SECONDS, _end, (process.pid,))
            watch.start()
            _, code, usage = os.wait4(process.pid, 0)
            watch.cancel()
            best = min(best, time.perf_counter() - start)
            cpu = min(cpu, usage.ru_utime + usage.ru_stime)
            process.returncode = status = os.waitstatus_to_exitcode(code)
            peak = max(peak, usage.ru_maxrss * 1024 / 1e6)
            out.seek(0)
            first = out.readline(400).decode(errors="replace").strip()
            if status < 0:
                first = f"ended by signal {-status} after {best:.0f} s"
                break
    return Cost(best, cpu, peak, status, first)


def family_peak_mb(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> float:
    """Peak memory in MB of a command and all that it starts, sampled: shared pages count once (PSS)."""
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}
    )
    peak = 0
    start = time.monotonic()
    while process.poll() is None:
        peak = max(peak, sum(map(_pss_kb, _family(process.pid))))
        if time.monotonic() - start > LONGEST_SECONDS:
            process.kill()
        time.sleep(0.02)
    return peak * 1024 / 1e6


def _family(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    children = [child for thread in threads for child in _text(str(thread)).split()]
    return [pid, *(member for child in children for member in _family(int(child)))]


def _pss_kb(pid: int) -> int:
    lines = _text(f"/proc/{pid}/smaps_rollup").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _end(pid: int) -> None:
    """Ends a command that hangs, and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def machine() -> list[str]:
    """The machine, the versions and the date, as lines."""
    model = next(
        (line.partition(":")[2].strip() for line in _text("/proc/cpuinfo").splitlines() if "model name" in line),
        platform.processor() or platform.machine(),
    )
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0))
    return [
        f"- {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}, commit {_commit()}",
        f"- {model}, {cores} cores, {pages / 1e9:.0f} GB, {platform.system()} {platform.release().split('-')[0]}",
        f"- Python {platform.python_version()}, numpy {version('numpy')}, rankmuster {version('rankmuster')}; files in "
        "the page cache",
        f"- load of the machine when it began: {os.getloadavg()[0]:.1f} (1 minute)",
    ]


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _commit() -> str:
    here = Path(__file__).parent
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=here)
    dirty = subprocess.run(["git", "status", "--porcelain", "-uno"], capture_output=True, text=True, cwd=here).stdout
    return (done.stdout.strip() or "unknown") + (" with changes" if dirty.strip() else "")
