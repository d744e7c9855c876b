"""What is the same for every instance of a node: its process table, its GPUs, and what its processes have mapped."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rankmuster.collect import bounded
from rankmuster.collect.find import libraries
from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.libraries import Libraries
from rankmuster.collect.find.seen import Seen, Table
from rankmuster.collect.find.table import PATIENCE, TOTAL, Doubts
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import NotAllowed, Proc


@dataclass
class Surroundings:
    """What is the same for every instance of a node. `gpu_processes`: host pid -> its GPUs, as NVML says."""

    machine: Machine
    proc: Proc
    table: Table
    boot_time: float
    initial_namespace: bool
    gpu_processes: Mapping[int, tuple[Gpu, ...]]
    gpus: Sequence[Gpu]
    doubts: Doubts
    ticks: int = field(default_factory=lambda: os.sysconf("SC_CLK_TCK"))
    _libraries: dict[int, Libraries | None] = field(default_factory=dict)

    def started_at(self, seen: Seen) -> float:
        """Unix seconds."""
        return self.boot_time + seen.stat.start_ticks / self.ticks

    def host_pid(self, seen: Seen) -> int | None:
        """As NVML numbers it: the first of NSpid where our /proc is the machine's own, else unknown."""
        if not self.initial_namespace:
            return None
        return seen.pids[0] if seen.pids else seen.pid

    def gpus_of(self, seen: Seen) -> tuple[Gpu, ...]:
        """By NVML's process list."""
        host_pid = self.host_pid(seen)
        return self.gpu_processes.get(host_pid, ()) if host_pid is not None else ()

    def link(self, pid: int | str, name: str) -> str | None:
        """Where a link of a process points; None also where that may not be seen."""
        try:
            return self.proc.link(pid, name)
        except (NotAllowed, OSError):
            return None

    def libraries(self, pid: int) -> Libraries | None:
        """What it has mapped; None when that may not be seen, or does not come back."""
        if pid not in self._libraries:
            done = bounded.each([pid], self._mapped, patience=PATIENCE * 3, total=TOTAL)
            self.doubts.stuck.update(done.stuck)
            self._libraries[pid] = done.results[0][1] if done.results else None
        return self._libraries[pid]

    def _mapped(self, pid: int) -> Libraries | None:
        if self.table[pid].stat.state == "Z":
            return None
        try:
            return libraries.libraries(self.proc.mapped_files(pid))
        except (NotAllowed, OSError):
            return None

    def has_nccl(self, pid: int) -> bool:
        """Whether NCCL is known to be in it."""
        found = self.libraries(pid)
        return found is not None and found.nccl is True
