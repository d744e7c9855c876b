"""Pids as NVML gives them -> pids as the processes of the instance know themselves.

The bundle speaks of processes by their own numbers, as NCCL, RAS and torch write them. NVML numbers them in the
driver's (the host's) namespace; left as they are, the ranks' own processes would look like foreign work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankmuster.collect.target import Target

BEYOND_PIDS = 1 << 22
"""PID_MAX_LIMIT of Linux: no process has a number so large. Added to a foreign pid that would be taken for one of the
instance's, which has that number in its own namespace."""


@dataclass(frozen=True, slots=True)
class PidMap:
    """`known`: NVML's number -> the process's own. `complete`: the NVML number of each of its processes is known.

    `inner`: all own numbers of the instance. `translates` False: nothing is known of the instance's numbers at NVML.
    """

    known: Mapping[int, int]
    inner: frozenset[int]
    complete: bool
    translates: bool = True

    def of(self, pids: Iterable[int]) -> list[int] | None:
        """The processes of one GPU; None where a number may be one of the instance's and nobody can tell."""
        if not self.translates:
            return None
        found = []
        for pid in pids:
            own = self.known.get(pid)
            if own is None and not self.complete:
                return None
            found.append(own if own is not None else pid + BEYOND_PIDS if pid in self.inner else pid)
        return sorted(set(found))


def pid_map(target: Target | None, seen: Sequence[Iterable[int]]) -> PidMap:
    """How to translate, given everything that NVML listed (`seen`, one collection per look at a GPU).

    Without host pids the numbers of this /proc are tried: they are NVML's where this program and NVML share a
    namespace, which shows when a worker's number is among those seen.
    """
    if target is None:
        return PidMap({}, frozenset(), complete=True)
    inner = frozenset(process.inner_pid for process in target.processes)
    by_host = {process.host_pid: process.inner_pid for process in target.processes if process.host_pid is not None}
    workers = target.workers or target.processes
    if by_host:
        return PidMap(by_host, inner, all(process.host_pid is not None for process in target.processes))
    listed = {pid for pids in seen for pid in pids}
    here = {process.pid: process.inner_pid for process in target.processes}
    used = [worker for worker in workers if worker.pid in listed]
    # One equal number of many may be chance: another namespace counts from 1 too.
    if used and 2 * len(used) >= len(workers):
        return PidMap(here, inner, complete=True)
    return PidMap({}, inner, complete=False, translates=False)
