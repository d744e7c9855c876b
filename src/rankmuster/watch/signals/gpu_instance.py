"""Which GPUs of a node are an instance's, and their samples in the instance's own numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rankmuster.collect.node.pids import PidMap, pid_map
from rankmuster.collect.target import Target
from rankmuster.model.hardware import GpuTrack
from rankmuster.watch.signals.gpu_rows import OF_POD


@dataclass(frozen=True, slots=True)
class Share:
    """What of a node's GPUs is one instance's.

    `uuids`, `indices`: as its processes name them (a UUID perhaps shortened, as CUDA_VISIBLE_DEVICES may have it).
    `host_pids`: of its processes, as NVML numbers them. `pids`: how listed processes are translated, None where nothing
    is said of them. `sole`: no other instance is watched here: where nothing tells its GPUs, all are taken.
    `own_pids`: of its processes, as they see themselves.
    """

    host: str
    uuids: tuple[str, ...]
    indices: frozenset[int]
    host_pids: frozenset[int]
    pids: PidMap | None
    sole: bool = False
    own_pids: frozenset[int] = frozenset()


def share_of(target: Target, listed: Sequence[Iterable[int]], *, sole: bool) -> Share:
    """`listed`: the processes that NVML lists on each GPU of the node (`NvmlSignal.listed`).

    An instance whose workers NVML does not list at all has not left its GPUs, they are hidden from this container: then
    nothing is said of processes.
    """
    seen = [tuple(pids) for pids in listed]
    hidden = bool(target.workers) and not any(seen)
    pids = None if hidden else pid_map(target, seen)
    return Share(
        host=target.host,
        uuids=tuple(sorted({uuid for process in target.processes for uuid in process.gpu_uuids if uuid})),
        indices=frozenset(gpu for process in target.processes for gpu in process.gpus),
        host_pids=frozenset(pids.known) if pids is not None and pids.translates else frozenset(),
        pids=pids,
        sole=sole,
        own_pids=frozenset(process.inner_pid for process in target.processes),
    )


def belongs(track: GpuTrack, share: Share) -> bool:
    """By UUID, else by index, else by a process of the instance on it, else by being alone.

    What an agent shows of one pod is the pod's already, by numbers that are the node's.
    """
    if track.source == OF_POD:
        return share.sole or any(share.own_pids.intersection(pids) for pids in track.pids if pids)
    if share.uuids and track.uuid is not None:
        return track.uuid.startswith(share.uuids)
    if share.indices:
        return track.gpu in share.indices
    if any(share.host_pids.intersection(pids) for pids in track.pids if pids):
        return True
    return share.sole


def for_instance(track: GpuTrack, share: Share) -> GpuTrack | None:
    """The samples as `diagnose` wants them of this instance; None where the GPU is not the instance's.

    The host is named as the target names it; `pids` are in the instance's own numbering, None where they cannot be
    told. A track without any list of processes (a DCGM page's) stays without; an agent's has them in these numbers.
    """
    if not belongs(track, share):
        return None
    if track.source == OF_POD:
        return replace(track, host=share.host)
    return replace(track, host=share.host, pids=tuple(_own(pids, share.pids) for pids in track.pids))


def _own(pids: tuple[int, ...] | None, translation: PidMap | None) -> tuple[int, ...] | None:
    if pids is None or translation is None:
        return None
    own = translation.of(pids)
    return None if own is None else tuple(own)
