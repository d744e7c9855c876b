"""From the processes of one instance to a `Target`: ranks, GPUs, roots, addresses, names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path

from rankmuster.collect.find import devices, libraries, naming, options, ranks, ray
from rankmuster.collect.find.device_nodes import handed_in
from rankmuster.collect.find.places import Places
from rankmuster.collect.find.ranks import Place
from rankmuster.collect.find.seen import Seen, Table
from rankmuster.collect.find.serving import as_server, urls_of_engine, urls_said
from rankmuster.collect.find.surroundings import Surroundings
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import ProcessOfInstance, Role, Target

MAX_MAPS_READ = 16
"""Processes of one instance whose mapped files are read: the workers of one node are alike."""


def build(
    around: Surroundings, group: frozenset[int], found: Places, found_by: tuple[str, ...]
) -> tuple[Target, list[str]]:
    """The target, and notes on what is odd about it."""
    table = around.table
    seen = [table[pid] for pid in sorted(group)]
    notes: list[str] = []
    held = dict(found.held)
    dead = _by_elimination(seen, held, found.world)
    if dead is not None:
        held[dead[0]] = dead[1]
        notes.append(
            f"pid {dead[0]} ({table[dead[0]].stat.comm}) has exited; it is taken for rank {dead[1].rank}, the only one "
            "that no living process has"
        )
    engine = naming.engine(seen)
    shape = found.shape
    starters = {above for pid in group if _works(table[pid]) for above in table.ancestors(pid)}
    processes = [_process(around, one, held.get(one.pid), group, starters) for one in seen]
    processes = _by_gpu(processes, found.world)
    if not any(one.role is Role.WORKER or one.rank is not None for one in processes):
        processes = [_with_work_inside(around, one) for one in processes]
    processes = [as_server(around, one, starters) for one in processes]
    ranked = sorted(processes, key=lambda p: (p.rank is None, p.rank or 0, p.role is not Role.WORKER, p.pid))
    oldest = min(processes, key=lambda process: process.start_ticks)
    loaded, folders, root = _loaded(around, ranked)
    target = Target(
        name=naming.name(seen, engine, shape, (place.source for place in held.values())),
        host=around.machine.hostname,
        processes=tuple(ranked),
        deployment=naming.deployment(seen),
        incarnation=naming.incarnation(seen, oldest.started_at),
        engine=engine,
        engine_version=libraries.version(root, folders, engine),
        world_size=found.world or _world(seen),
        nccl_loaded=loaded,
        metrics_urls=urls_of_engine(around, seen, engine) or urls_said(around, processes),
        log_folders=_log_folders(around, seen, ranked),
        found_by=found_by,
    )
    for rank, pids in sorted(found.doubled.items()):
        claimants = " and ".join(map(str, pids))
        notes.append(f"rank {rank} of {target.name} is claimed by pids {claimants}; both are kept under that rank")
    return target, notes


def _by_elimination(seen: list[Seen], held: Mapping[int, Place], world: int | None) -> tuple[int, Place] | None:
    """A worker that has exited has lost its title. Where one rank is missing and one worker is dead, it is that one."""
    dead = [one for one in seen if one.stat.state == "Z" and one.known is not None and one.known.role is Role.WORKER]
    dead = [one for one in dead if one.pid not in held]
    missing = set(range(world or 0)) - {place.rank for place in held.values()} if world and world < 4096 else set()
    if len(dead) != 1 or len(missing) != 1:
        return None
    return dead[0].pid, Place(missing.pop(), None, world, "elimination")


def _process(
    around: Surroundings, seen: Seen, place: Place | None, group: frozenset[int], starters: Set[int]
) -> ProcessOfInstance:
    environ = seen.environ or _inherited(around.table, seen, group)
    gpus = around.gpus_of(seen)
    if not gpus and place is not None:
        nodes = handed_in(around.machine, seen.pid, around.gpus)
        gpus = devices.of_local_rank(place.local_rank, devices.visible(environ, around.gpus, nodes), around.gpus)
    cwd = around.link(seen.pid, "cwd")
    return ProcessOfInstance(
        pid=seen.pid,
        inner_pid=seen.pids[-1] if seen.pids else seen.pid,
        host_pid=around.host_pid(seen),
        start_ticks=seen.stat.start_ticks,
        started_at=around.started_at(seen),
        role=_role(seen, place, starters, on_gpu=bool(around.gpus_of(seen))),
        name=seen.known.name if seen.known is not None else seen.stat.comm,
        rank=place.rank if place is not None else None,
        local_rank=place.local_rank if place is not None else None,
        gpus=tuple(gpu.index for gpu in gpus if gpu.index is not None),
        gpu_uuids=tuple(gpu.uuid for gpu in gpus if gpu.uuid is not None),
        uid=seen.uid if seen.uid is not None else 0,
        parent=seen.stat.parent or None,
        root=_root(around.proc, seen.pid),
        cwd=Path(cwd) if cwd is not None else None,
        environ=environ,
        command=seen.command,
        state=seen.stat.state,
        exit_status=seen.stat.exit_code,
    )


def _role(seen: Seen, place: Place | None, starters: Set[int], *, on_gpu: bool) -> Role:
    known = seen.known.role if seen.known is not None else None
    if place is not None and known is not Role.ENGINE:
        return Role.WORKER
    if known is not None:
        return known
    if on_gpu:
        return Role.WORKER
    return Role.LAUNCHER if seen.pid in starters else Role.HELPER


def _world(seen: list[Seen]) -> int | None:
    """What any process says of the whole, where no rank lives to say it."""
    sizes = [size for one in seen if (size := ranks.world(one.environ)) is not None]
    launched = [
        size for one in seen if one.known is not None and (size := options.launched(one.command, one.known.engine))
    ]
    return max(sizes or launched, default=None)


def _works(seen: Seen) -> bool:
    return (seen.known is not None and seen.known.role is not Role.HELPER) or "RANK" in seen.environ


def _by_gpu(processes: list[ProcessOfInstance], world: int | None) -> list[ProcessOfInstance]:
    """Workers without title or variables (vLLM before 0.10.2, Ray): where there is one to a GPU and they are all of the
    world, the order of the GPUs is the order of the ranks."""
    bare = [one for one in processes if one.role is Role.WORKER and one.rank is None and len(one.gpus) == 1]
    others = any(one.rank is not None for one in processes)
    distinct = {one.gpus[0] for one in bare}
    if others or world is None or len(bare) != world or len(distinct) != world:
        return processes
    order = {one.pid: rank for rank, one in enumerate(sorted(bare, key=lambda one: one.gpus[0]))}
    return [
        replace(one, rank=order[one.pid], local_rank=order[one.pid]) if one.pid in order else one for one in processes
    ]


def _with_work_inside(around: Surroundings, process: ProcessOfInstance) -> ProcessOfInstance:
    """A server that computes by itself (LMDeploy's TurboMind, Triton): the process with the GPU is the worker."""
    inside = process.role in (Role.SERVER, Role.ENGINE)
    works = inside and (bool(around.gpus_of(around.table[process.pid])) or around.has_nccl(process.pid))
    return replace(process, role=Role.WORKER) if works else process


def _inherited(table: Table, seen: Seen, group: frozenset[int]) -> Mapping[str, str]:
    """For a process whose title has overwritten its variables: those of the nearest relative that still has them."""
    ancestors = list(table.ancestors(seen.pid))
    relatives = [pid for pid in ancestors if pid in group]
    relatives += sorted(pid for pid in group if table[pid].known is not None and pid != seen.pid)
    relatives += ancestors[:1]  # a raylet is no part of the instance, and its variables are its workers'
    environ = next((table[pid].environ for pid in relatives if pid in table and table[pid].environ), {})
    return naming.inherited(environ)


def _root(proc: Proc, pid: int) -> Path:
    """`/` only where both certainly see the same files: else another root's file would be taken for its own."""
    seen_from_here = proc.root / str(pid) / "root"
    try:
        same = proc.link("self", "ns/mnt") == proc.link(pid, "ns/mnt") is not None
        if same and proc.link(pid, "root") == proc.link("self", "root") == "/":
            return Path("/")
    except (NotAllowed, OSError):
        return seen_from_here
    return seen_from_here if os.path.lexists(seen_from_here) else Path("/")


def _loaded(around: Surroundings, processes: list[ProcessOfInstance]) -> tuple[bool | None, tuple[str, ...], Path]:
    """Whether any process has NCCL; package folders and the root below which they lie, for the version."""
    answers: list[bool | None] = []
    folders: dict[str, None] = {}
    root = processes[0].root
    for process in processes[:MAX_MAPS_READ]:
        found = around.libraries(process.pid)
        answers.append(found.nccl if found is not None else None)
        if found is not None and found.folders:
            root = root if folders else process.root
            folders |= dict.fromkeys(found.folders)
        if True in answers and folders:
            break
    if True in answers:
        return True, tuple(folders), root
    return (None if None in answers or not answers else False), tuple(folders), root


def _log_folders(around: Surroundings, seen: list[Seen], processes: list[ProcessOfInstance]) -> tuple[Path, ...]:
    by_pid = {process.pid: process for process in processes}
    found: list[Path] = []
    for one in seen:
        process = by_pid[one.pid]
        if one.ray_job is not None:
            found.append(process.outside(one.ray_job[0]))
        if one.known is not None:
            found.extend(process.outside(folder) for folder in options.log_folders(one.command, one.known.engine))
    rayed = [process for process in processes if process.name.startswith("ray::")]
    if rayed and not found:
        raylets = (
            ray.folder(other.command) for other in around.table.processes.values() if other.stat.comm == "raylet"
        )
        found.append(rayed[0].outside(next(filter(None, raylets), ray.DEFAULT_LOGS)))
    return tuple(dict.fromkeys(found))
