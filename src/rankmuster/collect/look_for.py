"""Finds the one instance that is meant, by /proc first and by NVML's processes where that does not tell enough."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find import run_file
from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.ended import ended_part, ended_target, with_ranks
from rankmuster.collect.find.naming import clean
from rankmuster.collect.find.run_file import Kept, NotBelieved
from rankmuster.collect.find.search import Found, Request, find
from rankmuster.collect.find.seen import INCARNATION
from rankmuster.collect.machine import Machine
from rankmuster.collect.node.nvml_session import listed
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """What NVML said: the node's GPUs, and host pid -> those that it computes on."""

    gpus: tuple[Gpu, ...]
    processes: Mapping[int, tuple[Gpu, ...]]


def _gpus(said: Iterable[tuple[int, str]]) -> tuple[Gpu, ...]:
    return tuple(Gpu(index, uuid or None) for index, uuid in said)


class _Nvml:
    """NVML's processes, asked in a thread of its own while /proc is read."""

    def __init__(self, deadline: Deadline) -> None:
        self.found: _Asked | None = None
        self._deadline = deadline.within(min(NVML_SECONDS, deadline.remaining() * NVML_SHARE))
        self._thread = threading.Thread(target=self._ask, name="find-nvml", daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads: a pod's pids limit; /proc can still be read
            self._thread.start()

    def _ask(self) -> None:
        said = listed(self._deadline.remaining())
        if said is not None:
            self.found = _Asked(_gpus(said.gpus), {pid: _gpus(those) for pid, those in said.processes.items()})

    def wait(self) -> _Asked | None:
        if self._thread.ident is not None:
            self._thread.join(self._deadline.remaining() + 0.5)
        return self.found


def look_for(
    machine: Machine, request: Request, *, now: float, deadline: Deadline, run_folder: Path | None = None
) -> Sought:
    """The instance that `request` means: what lives of it, and what the record of its supervisor in `run_folder` tells
    of the rest.

    Raises Ambiguous where several are found; the message lists them.
    """
    nvml = _Nvml(deadline)
    found = find(machine, request, now=now)
    if not _enough(found):
        said = nvml.wait()
        if said is not None:
            found = find(machine, request, now=now, gpu_processes=said.processes, gpus=said.gpus)
    if len(found.targets) > 1:
        listed = "; ".join(_told(target) for target in found.targets[:SHOWN])
        more = f"; and {len(found.targets) - SHOWN} more" if len(found.targets) > SHOWN else ""
        raise Ambiguous(
            f"{len(found.targets)} instances run on {machine.hostname}: {listed}{more}. "
            "Name one with --instance NAME or --pid PID"
        )
    if run_folder is None:
        return Sought(found.targets[0] if found.targets else None, found.notes)
    if found.targets:
        return _with_the_gone(found.targets[0], machine, run_folder, found.notes)
    return _ended(machine, request, run_folder, found.notes)


def _with_the_gone(target: Target, machine: Machine, folder: Path, notes: tuple[str, ...]) -> Sought:
    """What lives of it, with those of its incarnation that have ended. Nothing is said of records that do not matter:
    most instances have none."""
    marked = target.setting(INCARNATION)
    try:
        kept = (
            run_file.named(folder, target.name, machine) if marked is not None else _by_process(target, machine, folder)
        )
    except NotBelieved as error:
        return Sought(target, (*notes, str(error)))
    if kept is None or kept.record.incarnation is None:
        return Sought(target, notes)
    if marked is not None and clean(kept.record.incarnation) != clean(marked):
        return Sought(target, notes)
    found = {process.pid for process in target.processes}
    ended = ended_part(kept, found | set(run_file.living(kept.record, machine)))
    if ended is None:
        return Sought(target, notes)
    return Sought(replace(target, processes=with_ranks(target.processes, kept.record), ended=ended), notes)


def _by_process(target: Target, machine: Machine, folder: Path) -> Kept | None:
    """The record that has a living process of it: a pod's sidecar keeps one of an instance without marks of ours."""
    kept = run_file.with_process(folder, (process.pid for process in target.processes), machine)
    if kept is None:
        return None
    listed = {(one.pid, one.ticks) for one in kept.record.roster}
    return kept if any((one.pid, one.start_ticks) in listed for one in target.processes) else None


def _ended(machine: Machine, request: Request, folder: Path, notes: tuple[str, ...]) -> Sought:
    """What its supervisor's record tells of an instance that nobody could be found of."""
    try:
        kept = _kept(machine, request, folder)
    except NotBelieved as error:
        return Sought(None, (*notes, str(error)))
    if kept is None:
        return Sought(None, notes)
    alive = run_file.living(kept.record, machine)
    if alive:
        pids = ", ".join(map(str, alive[:8]))
        told = f"its supervisor's record {kept.path} is of an instance that lives (pids {pids}): it tells of no end"
        return Sought(None, (*notes, told))
    target = ended_target(kept, machine.hostname)
    if target is None:
        return Sought(None, (*notes, f"its supervisor's record {kept.path} tells of no start"))
    return Sought(target, tuple(note for note in notes if not note.startswith(_NOBODY)))


_NOBODY = ("no instance is called ", "there is no process ")
"""Notes of the search that are no news of an instance that has ended."""


def _kept(machine: Machine, request: Request, folder: Path) -> Kept | None:
    """Raises NotBelieved."""
    if request.instance is not None:
        return run_file.named(folder, request.instance, machine)
    return run_file.with_process(folder, request.pids, machine) if request.pids else None


def _enough(found: Found) -> bool:
    """Whether every worker found has a GPU by NVML's index, by which counters name it: NVML would add nothing that the
    GPUs' own collector does not. Of a container seen from outside only NVML knows for certain which GPUs it has."""
    return bool(found.targets) and all(
        target.workers and all(process.gpus and process.inner_pid == process.pid for process in target.workers)
        for target in found.targets
    )


def _told(target: Target) -> str:
    pids = [process.pid for process in target.workers or target.processes]
    shown = ", ".join(map(str, pids[:8])) + (", ..." if len(pids) > 8 else "")
    return f"{target.name!r} ({target.engine or 'engine unknown'}; pids {shown})"
