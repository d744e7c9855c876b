"""Finds the instances of a node: by pid, by markers, by the engines' titles, by NVML's processes, by Ray's jobs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from rankmuster.collect.find import groups, naming
from rankmuster.collect.find.build import build
from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.places import Places, apart, places
from rankmuster.collect.find.seen import Table
from rankmuster.collect.find.surroundings import Surroundings
from rankmuster.collect.find.table import Doubts, closely, look
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import Proc
from rankmuster.collect.target import Target

_NO_INSTANCE = ("Xorg", "Xwayland", "gnome-shell", "nv-hostengine", "dcgm-exporter", "nvidia-smi", "dcgmproftester")
"""Programs (by the start of `comm`) that hold a GPU and are no instance."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to look for; nothing: everything. `pids`: any process of the wanted instances, as our /proc numbers it."""

    pids: tuple[int, ...] = ()
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """`targets`: by name. `notes`: what could not be looked at, and what is odd; one sentence each."""

    targets: tuple[Target, ...]
    notes: tuple[str, ...] = ()


def find(
    machine: Machine,
    request: Request,
    *,
    now: float,
    gpu_processes: Mapping[int, tuple[Gpu, ...]] | None = None,
    gpus: Sequence[Gpu] = (),
) -> Found:
    """The instances that run here. Takes tenths of a second; some seconds where processes hang in a driver.

    `now`: unix seconds. `gpu_processes`: NVML's, host pid -> GPUs; None when NVML could not be asked. `gpus`: the
    node's, by which indices and UUIDs are told from one another. Expected trouble becomes a note.
    """
    proc = Proc(machine.proc)
    doubts = Doubts()
    table = look(proc, set(request.pids), doubts)
    if not table.processes:
        return Found((), (f"{machine.proc} lists no process: is a /proc mounted there, and may it be read?",))
    initial = proc.initial_pid_namespace()
    on_gpu = _on_gpu(table, gpu_processes or {}, initial)
    table = closely(proc, table, on_gpu, doubts) if on_gpu else table
    left_out = _ourselves(proc, table)
    wanted = {pid for pid in request.pids if pid in table}
    notes = _hidden(machine, request, table, gpu_processes, initial)
    if request.pids and not wanted:
        return Found((), tuple(notes))
    found = groups.groups(table, on_gpu, left_out)
    if not found and not wanted:
        # Nobody says by its title what it is: a program in any language still has its launcher's variables.
        table = closely(
            proc,
            table,
            table.processes.keys() - {seen.pid for seen in table.processes.values() if seen.environ},
            doubts,
        )
        found = groups.groups(table, on_gpu, left_out)
    if wanted:
        found = _around(table, found, wanted, on_gpu, left_out)
    around = Surroundings(machine, proc, table, _boot_time(proc, now), initial, gpu_processes or {}, gpus, doubts)
    targets: list[Target] = []
    for group in found:
        for part, claimed in _parts(around, group, on_gpu):
            target, odd = build(around, part, claimed, _found_by(table, part, wanted, on_gpu))
            targets.append(target)
            notes.extend(odd)
    targets = _named(targets)
    if wanted:  # of instances that use the same words, the one that the pid is in
        targets = [one for one in targets if wanted & {process.pid for process in one.processes}] or targets
    if request.instance is not None:
        chosen = [target for target in targets if target.name == request.instance]
        if not chosen:
            there = ", ".join(target.name for target in targets) or "none at all"
            notes.append(f"no instance is called {request.instance!r} here; there is {there}")
        targets = chosen
    asked = request.pids or (request.instance is not None and targets)
    about = {process.pid for target in targets for process in target.processes} if asked else None
    return Found(tuple(targets), tuple(dict.fromkeys((*notes, *doubts.notes(about)))))


def _on_gpu(table: Table, gpu_processes: Mapping[int, tuple[Gpu, ...]], initial: bool) -> set[int]:
    """Our pids of NVML's processes. Outside the machine's own pid namespace its numbers mean other processes here."""
    if not initial:
        return set()
    found = {pid for pid in gpu_processes if pid in table}
    return {pid for pid in found if not table[pid].stat.comm.startswith(_NO_INSTANCE)}


def _ourselves(proc: Proc, table: Table) -> set[int]:
    """This program and what started it: in a pod they have the instance's variables too, and are no part of it."""
    own = proc.own_pid()
    if own is None or own not in table:
        return set()
    above = [pid for pid in table.ancestors(own) if (known := table[pid].known) is None or not known.engine]
    return {own, *above}


def _hidden(
    machine: Machine,
    request: Request,
    table: Table,
    gpu_processes: Mapping[int, tuple[Gpu, ...]] | None,
    initial: bool,
) -> list[str]:
    notes = [
        f"there is no process {pid} here (any more); give a pid as {machine.proc} numbers it"
        for pid in request.pids
        if pid not in table
    ]
    if os.geteuid() != 0 and _hidepid(machine):
        notes.append(f"{machine.proc} is mounted with hidepid: other users' processes cannot be seen; run as root")
    if gpu_processes and not initial:
        notes.append(
            "NVML's process list holds the machine's pids, and this pid namespace is another one: GPUs are told by "
            "environment and rank only (run with the host's pid namespace to use it)"
        )
    elif gpu_processes:
        unseen = sorted(pid for pid in gpu_processes if pid not in table)
        if unseen:
            shown = ", ".join(map(str, unseen[:8]))
            notes.append(f"NVML lists pid(s) {shown} on a GPU that cannot be seen here, or have just ended")
    return notes


def _hidepid(machine: Machine) -> bool:
    try:
        lines = (machine.proc / "mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    fields = [line.split() for line in lines]
    mine = [f for f in fields if len(f) > 3 and f[2] == "proc" and f[1] == str(machine.proc)]
    return any("hidepid=" in f[3] and "hidepid=0" not in f[3] and "hidepid=off" not in f[3] for f in mine)


def _boot_time(proc: Proc, now: float) -> float:
    boot = proc.boot_time()
    if boot > 0:
        return boot
    try:
        return now - float((proc.root / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0


def _around(
    table: Table, found: Iterable[frozenset[int]], wanted: Set[int], on_gpu: Set[int], left_out: Set[int]
) -> list[frozenset[int]]:
    """The instances of the wanted pids: the one they are in, else those that they have started, else themselves."""
    found = list(found)
    chosen: list[frozenset[int]] = []
    for pid in sorted(wanted):
        inside = [group for group in found if pid in group]
        started = [group for group in found if any(pid in table.ancestors(member) for member in group)]
        alone = [group for group in groups.groups(table, {*on_gpu, pid}, left_out - {pid}) if pid in group]
        chosen.extend(inside or started or alone)
    return list(dict.fromkeys(chosen))


def _parts(around: Surroundings, group: frozenset[int], on_gpu: Set[int]) -> list[tuple[frozenset[int], Places]]:
    """One instance, or several that use the same words: then ranks are doubled, and containers or parents differ."""
    claimed = places(around.table, group, on_gpu, around.has_nccl)
    cut = apart(around.table, group, claimed.doubled) if claimed.doubled else [group]
    if len(cut) == 1:
        return [(group, claimed)]
    return [(part, places(around.table, part, on_gpu, around.has_nccl)) for part in cut]


def _found_by(table: Table, group: frozenset[int], wanted: Set[int], on_gpu: Set[int]) -> tuple[str, ...]:
    seen = [table[pid] for pid in group]
    ways = (
        ("pid", bool(wanted & group)),
        ("environment", any(one.environ and groups.keys(one) for one in seen)),
        ("name", any(one.known is not None and one.known.engine for one in seen)),
        ("nvml", bool(on_gpu & group)),
        ("ray", any(one.ray_job is not None for one in seen)),
    )
    return tuple(way for way, holds in ways if holds)


def _named(targets: list[Target]) -> list[Target]:
    oldest = [min(target.processes, key=lambda process: process.start_ticks).pid for target in targets]
    names = naming.distinct([target.name for target in targets], oldest)
    renamed = [replace(target, name=name) for target, name in zip(targets, names, strict=True)]
    return sorted(renamed, key=lambda target: target.name)
