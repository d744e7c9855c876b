"""What a process and everything it started take of the machine, from /proc."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """`cpu`: seconds of processor time, of the process, of its living descendants, and of ended ones that were waited
    for. `rss`: bytes in memory of all that live, pages that they share counted for each."""

    cpu: float = 0.0
    rss: int = 0


def usage_of(pid: int, proc: Path = Path("/proc")) -> Usage:
    """Of `pid` and its descendants now; zeros when it has ended."""
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    cpu, rss = 0.0, 0
    left = [pid]
    while left:
        one = left.pop()
        try:
            stat = (proc / str(one) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            children = (proc / str(one) / "task" / str(one) / "children").read_text().split()
        except (OSError, ValueError):
            continue
        # proc(5), counted from the state, the third: utime and stime, those of waited-for children, rss in pages.
        cpu += sum(int(ticks) for ticks in stat[11:15]) / tick
        rss += int(stat[21]) * page
        left += [int(child) for child in children] + _of_other_threads(proc, one)
    return Usage(cpu, rss)


def began(pid: int) -> float:
    """When a process was started, unix seconds, to a hundredth. Raises OSError when it is gone."""
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    # proc(5): starttime, in ticks since the boot, is the 22nd field; the state, the first here, is the third.
    ticks = int(stat[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks


def _of_other_threads(proc: Path, pid: int) -> list[int]:
    """Children that a thread other than the first has started."""
    found = []
    try:
        threads = [one for one in (proc / str(pid) / "task").iterdir() if one.name != str(pid)]
    except OSError:
        return []
    for thread in threads:
        try:
            found += [int(child) for child in (thread / "children").read_text().split()]
        except OSError:
            continue
    return found
