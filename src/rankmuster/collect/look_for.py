"""Finds the one instance that is meant, by /proc first and by NVML's processes where that does not tell enough."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.search import Found, Request, find
from rankmuster.collect.machine import Machine
from rankmuster.collect.node.nvml_session import gpu_processes
from rankmuster.collect.target import Target

NVML_SECONDS = 3.0
"""For NVML's list of processes: with persistence mode off the driver takes seconds to load."""

NVML_SHARE = 0.2
"""... and no more than this part of the whole deadline."""

SHOWN = 20
"""Instances or processes that an error names; more than that nobody reads."""


class Ambiguous(Exception):
    """Several instances run here, and nobody said which is meant."""


@dataclass(frozen=True, slots=True)
class Sought:
    """`target` None: none was found. `notes`: what could not be looked at, and what is odd."""

    target: Target | None
    notes: tuple[str, ...]


class _Nvml:
    """NVML's processes, asked in a thread of its own while /proc is read."""

    def __init__(self, deadline: Deadline) -> None:
        self.found: Mapping[int, tuple[Gpu, ...]] | None = None
        self._deadline = deadline.within(min(NVML_SECONDS, deadline.remaining() * NVML_SHARE))
        self._thread = threading.Thread(target=self._ask, name="find-nvml", daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        listed = gpu_processes(self._deadline.remaining())
        if listed is not None:
            self.found = {pid: tuple(Gpu(index, uuid or None) for index, uuid in gpus) for pid, gpus in listed.items()}

    def wait(self) -> Mapping[int, tuple[Gpu, ...]] | None:
        self._thread.join(self._deadline.remaining() + 0.5)
        return self.found


def look_for(machine: Machine, request: Request, *, now: float, deadline: Deadline) -> Sought:
    """The instance that `request` means.

    Raises Ambiguous where several are found; the message lists them.
    """
    nvml = _Nvml(deadline)
    found = find(machine, request, now=now, gpu_processes=nvml.found)
    if not _enough(found):
        on_gpu = nvml.wait()
        if on_gpu is not None:
            found = find(machine, request, now=now, gpu_processes=on_gpu)
    if len(found.targets) > 1:
        listed = "; ".join(_told(target) for target in found.targets[:SHOWN])
        more = f"; and {len(found.targets) - SHOWN} more" if len(found.targets) > SHOWN else ""
        raise Ambiguous(
            f"{len(found.targets)} instances run on {machine.hostname}: {listed}{more}. "
            "Name one with --instance NAME or --pid PID"
        )
    return Sought(found.targets[0] if found.targets else None, found.notes)


def _enough(found: Found) -> bool:
    """Whether every worker found has a GPU, so that NVML would add nothing that the GPUs' own collector does not."""
    return bool(found.targets) and all(
        target.workers and all(process.gpus or process.gpu_uuids for process in target.workers)
        for target in found.targets
    )


def _told(target: Target) -> str:
    pids = [process.pid for process in target.workers or target.processes]
    shown = ", ".join(map(str, pids[:8])) + (", ..." if len(pids) > 8 else "")
    return f"{target.name!r} ({target.engine or 'engine unknown'}; pids {shown})"
