"""What is known of an instance over time: which processes it is made of, who of them has ended, and which incarnation
it is. Pure: targets in, targets out.

A process that ended stays in its target with the state X, so that whoever looks at the instance sees it missing. When
every rank has been replaced, it is another incarnation, whatever else went on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.target import ProcessOfInstance, Role, Target

GONE = "X"
"""The state of a process that is no longer listed, as the kernel's own letter for a dead one."""

ENDED = ("Z", "X")

Key = tuple[int, int]
"""(pid, start_ticks): never names another process."""

_OURS = re.compile(
    r"\brankmuster\.(?:watch|collect|diagnose|cli)\b|/rankmuster (?:watch|collect|diagnose|top|bundle|env)\b"
)
"""Command lines of ours. A drill's ranks are an instance like any other."""

_BY_PID = re.compile(r"-pid\d+\Z")


@dataclass(frozen=True, slots=True)
class Known:
    """`ended_at`: monotonic seconds when its last process was seen to have ended, None while one lives."""

    target: Target
    ended_at: float | None = None


def key(process: ProcessOfInstance) -> Key:
    """What tells it from every other."""
    return process.pid, process.start_ticks


def alive(process: ProcessOfInstance) -> bool:
    """Whether it ran when it was looked at."""
    return process.state not in ENDED


def without_ours(target: Target) -> Target | None:
    """The target without this program's own processes, None where nothing is left.

    In a pod a watch and its children (NVML's, those that collect) have the instance's variables too, and are no part
    of it: they would be an instance of their own where the engine has not come yet.
    """
    kept = tuple(one for one in target.processes if not _OURS.search(" ".join(one.command)))
    if len(kept) == len(target.processes):
        return target
    return replace(target, processes=kept) if kept else None


def with_gpus(target: Target, gpus: Mapping[int, tuple[Gpu, ...]]) -> Target:
    """The target with the GPUs of those processes that somebody knows; what a pod guesses counts from its own 0."""
    if not any(process.inner_pid in gpus for process in target.processes):
        return target
    return replace(target, processes=tuple(_with_gpus(one, gpus.get(one.inner_pid)) for one in target.processes))


def _with_gpus(process: ProcessOfInstance, gpus: tuple[Gpu, ...] | None) -> ProcessOfInstance:
    if gpus is None:
        return process
    return replace(
        process,
        gpus=tuple(gpu.index for gpu in gpus if gpu.index is not None),
        gpu_uuids=tuple(gpu.uuid for gpu in gpus if gpu.uuid is not None),
    )


def telling(target: Target) -> tuple[ProcessOfInstance, ...]:
    """The processes that make the instance: all but helpers, which come and go; all where there are no others."""
    found = tuple(one for one in target.processes if one.role is not Role.HELPER or one.rank is not None)
    return found or target.processes


def over(target: Target) -> bool:
    """Whether nothing that makes the instance lives."""
    return not any(alive(process) for process in telling(target))


def living_workers(target: Target) -> set[Key]:
    """Its ranks that live."""
    return {key(process) for process in target.workers if alive(process)}


def shape(target: Target) -> Hashable:
    """What must differ for the instance to count as changed: a helper that came or went does not."""
    processes = frozenset(
        (key(one), one.role, one.rank, one.gpus, one.gpu_uuids, alive(one)) for one in telling(target)
    )
    return (
        target.incarnation,
        target.deployment,
        target.engine,
        target.engine_version,
        target.world_size,
        target.nccl_loaded,
        target.metrics_urls,
        target.log_folders,
        processes,
    )


def looked(target: Target, state_of: Callable[[ProcessOfInstance], tuple[str, int | None] | None]) -> Target:
    """The target with the states of now; helpers that ended are left out. The very same object where nothing changed.

    `state_of`: (state, exit status) of a process, None where that cannot be seen.
    """
    kept = {key(process) for process in telling(target)}
    changed = False
    processes: list[ProcessOfInstance] = []
    for process in target.processes:
        if process.state == GONE:
            processes.append(process)
            continue
        said = state_of(process)
        now = process
        if said is not None and (said[0] in ENDED) and said[0] != process.state:
            status = said[1] if said[1] is not None else process.exit_status
            now = replace(process, state=said[0], exit_status=status)
            changed = True
        if alive(now) or key(now) in kept:
            processes.append(now)
    return replace(target, processes=tuple(processes)) if changed else target


def in_common(known: Target, found: Target) -> int:
    """How many living processes of the one are in the other."""
    return len({key(one) for one in known.processes if alive(one)} & {key(one) for one in found.processes})


def same(known: Target, found: Target) -> bool:
    """Whether both have a living process in common."""
    return in_common(known, found) > 0


def stable_name(known: str, found: str) -> str:
    """Names stay: a second instance of the same name must not rename the first. A better one than a pid's is taken."""
    return found if _BY_PID.search(known) and not _BY_PID.search(found) else known


def merged(known: Target, found: Target, elsewhere: Set[Key] = frozenset()) -> Target:
    """`found`, a later sight of the same instance (`same`, or by name after its end), with what is known of it.

    Of the same incarnation: its name, and its dead. Of the next: found alone. `elsewhere`: processes of other instances
    that were found with it.
    """
    before = {key(one) for one in known.workers}
    replaced = bool(before and living_workers(found)) and not before & {key(one) for one in found.workers}
    if not same(known, found) or (replaced and not living_workers(known)):
        # Whoever restarts ranks below a launcher that lives on may say nothing of it.
        incarnation = found.incarnation
        if incarnation is not None and incarnation == known.incarnation:
            incarnation = f"{incarnation}+ranks-{_since(found)}"
        return replace(found, name=stable_name(known.name, found.name), incarnation=incarnation)
    earlier = {key(one): one for one in known.processes}
    processes = tuple(_carried(one, earlier.get(key(one))) for one in found.processes)
    listed = {key(one) for one in processes} | elsewhere
    ranks = {one.rank for one in processes if one.rank is not None and alive(one)}
    newcomers = {(one.role, one.name) for one in processes if key(one) not in earlier and alive(one)}
    kept = tuple(
        one
        for one in telling(known)
        if key(one) not in listed
        and (one.rank not in ranks if one.rank is not None else alive(one) or (one.role, one.name) not in newcomers)
    )
    began_without_ranks = not before and bool(found.workers)
    incarnation = found.incarnation if began_without_ranks or known.incarnation is None else known.incarnation
    return replace(
        found,
        name=stable_name(known.name, found.name),
        incarnation=incarnation,
        processes=(*processes, *kept),
        world_size=found.world_size if found.world_size is not None else known.world_size,
        nccl_loaded=found.nccl_loaded if found.nccl_loaded is not None else known.nccl_loaded,
        engine_version=found.engine_version or known.engine_version,
        metrics_urls=found.metrics_urls or known.metrics_urls,
    )


def _carried(process: ProcessOfInstance, before: ProcessOfInstance | None) -> ProcessOfInstance:
    """A process as it was found, with what was known of it: nobody comes back to life, and the dead have lost their
    titles; the GPUs of one that NVML does not list this time are the same."""
    if before is None:
        return process
    if not alive(before):
        return before if alive(process) or before.state == GONE else replace(before, state=process.state)
    if not alive(process):
        return replace(before, state=process.state, exit_status=process.exit_status)
    rank = process.rank if process.rank is not None else before.rank
    return replace(
        process,
        rank=rank,
        role=before.role if process.rank is None and before.rank is not None else process.role,
        gpus=process.gpus or before.gpus,
        gpu_uuids=process.gpu_uuids or before.gpu_uuids,
    )


def _since(target: Target) -> str:
    began = max((one.started_at for one in target.workers if alive(one)), default=0.0)
    return datetime.fromtimestamp(max(int(began), 0), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
