"""Contradictions of a pod's specification: shared memory, memory locks, volumes, ports between containers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rankmuster.environment.contradiction import Contradiction, Severity, Subject
from rankmuster.environment.costs import size_text
from rankmuster.environment.given import Mount, PodFacts
from rankmuster.environment.table import TABLE
from rankmuster.environment.values import quoted, read_number

SHM_LEAST = 1 << 30
"""Bytes. Container runtimes give 64 MiB, which NCCL's segments of some MB per pair of ranks overrun; engines' own
queues of messages between workers come on top."""


def _working(subject: Subject) -> PodFacts | None:
    """Facts of a container that runs ranks."""
    pod = subject.given.pod
    return pod if pod is not None and not pod.init and (pod.gpus > 0 or pod.rdma) else None


def shared_memory(subject: Subject) -> Iterator[Contradiction]:
    """Shared memory for more than one GPU's processes."""
    pod = _working(subject)
    if pod is None or pod.gpus < 2 or pod.host_ipc:
        return
    mount = next((mount for mount in pod.mounts if mount.path == "/dev/shm"), None)  # noqa: S108
    fix = "mount an emptyDir of medium Memory at /dev/shm, with a sizeLimit of some GiB"
    if mount is None:
        yield Contradiction(
            Severity.WARNING,
            "small_shm",
            (),
            f"{pod.gpus} GPUs and no volume at /dev/shm: the runtime's 64 MiB are soon too small for NCCL and for the "
            "engine's queues; init fails then, or a process dies of SIGBUS",
            fix,
        )
    elif mount.kind == "emptyDir" and not mount.memory:
        yield Contradiction(
            Severity.WARNING, "shm_on_disk", (), "shared memory is an emptyDir on disk, and as slow as one", fix
        )
    elif mount.size is not None and mount.size < SHM_LEAST:
        yield Contradiction(
            Severity.WARNING,
            "small_shm",
            (),
            f"the volume at /dev/shm holds {size_text(mount.size)}, for {pod.gpus} GPUs",
            f"give it a sizeLimit of at least {size_text(SHM_LEAST)}",
        )


def memory_lock(subject: Subject) -> Iterator[Contradiction]:
    """RDMA needs memory that stays where it is."""
    pod = _working(subject)
    if pod is not None and pod.rdma and not pod.ipc_lock:
        yield Contradiction(
            Severity.NOTE,
            "no_ipc_lock",
            (),
            "an RDMA device is asked for, and IPC_LOCK is not: ibv_reg_mr fails where the runtime limits locked memory",
            "add IPC_LOCK to securityContext.capabilities.add, or raise memlock in the runtime",
        )


def volumes(subject: Subject) -> Iterator[Contradiction]:
    """Evidence in the container's own layer is gone when the container is."""
    pod, now = _working(subject), subject.effective
    if pod is None:
        return
    log = subject.given.of("NCCL_DEBUG_FILE")
    for name, path in (("TORCH_FR_DUMP_TEMP_FILE", now.prefix if now.prefix_set else None), ("NCCL_DEBUG_FILE", log)):
        if path is None or not path.startswith("/"):
            continue
        mount = _mount_of(path, pod.mounts)
        if mount is None:
            yield Contradiction(
                Severity.WARNING,
                "not_on_a_volume",
                (name,),
                f"{quoted(path)} lies in the container's own file system, which is gone when the container restarts",
                "mount a volume there",
            )
        elif mount.kind == "hostPath" and "$(" not in path and not subject.given.has("RANKMUSTER_INCARNATION"):
            yield Contradiction(
                Severity.WARNING,
                "shared_on_host",
                (name,),
                f"{quoted(path)} lies on the node's disk, and every pod of this specification on a node writes there",
                "put the pod's UID into the path; `rankmuster env print --format yaml` does",
            )


def _mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    fitting = [mount for mount in mounts if path.startswith(mount.path.rstrip("/") + "/")]
    return max(fitting, key=lambda mount: len(mount.path), default=None)


def between(subjects: Sequence[Subject]) -> Iterator[Contradiction]:
    """What only shows when the environments of one file are laid side by side."""
    yield from _same_ras(subjects)
    yield from _same_prefix(subjects)


def _same_ras(subjects: Sequence[Subject]) -> Iterator[Contradiction]:
    """Containers of one pod share its network, so they share a port."""
    ports: dict[tuple[str, str], list[PodFacts]] = defaultdict(list)
    for subject in subjects:
        pod, given = _working(subject), subject.given
        if pod is None or "NCCL_RAS_ADDR" in given.unknown or read_number(given.of("NCCL_RAS_ENABLE")) == 0:
            continue
        if not TABLE["NCCL_RAS_ADDR"].read_by(subject.nccl):
            continue
        place = given.of("NCCL_RAS_ADDR") or TABLE["NCCL_RAS_ADDR"].default(subject.nccl) or ""
        ports[(pod.pod, place.rpartition(":")[2])].append(pod)
    for (owner, port), pods in ports.items():
        if len(pods) > 1:
            names = " and ".join(pod.container for pod in pods)
            yield Contradiction(
                Severity.WARNING,
                "same_ras_port",
                ("NCCL_RAS_ADDR",),
                f"containers {names} of one pod share RAS's port {port}: either answers for the other",
                "give each its own port, unless they are one instance",
                where=owner,
            )


def _same_prefix(subjects: Sequence[Subject]) -> Iterator[Contradiction]:
    """Two instances of one file that write to one prefix."""
    users: dict[str, list[Subject]] = defaultdict(list)
    for subject in subjects:
        prefix = subject.effective.prefix
        if subject.effective.prefix_set and prefix and (subject.given.pod is None or _working(subject)):
            users[prefix].append(subject)
    for prefix, sharing in users.items():
        owners = {subject.given.pod.pod if subject.given.pod else subject.given.where for subject in sharing}
        if len(owners) > 1 and "$(" not in prefix:
            yield Contradiction(
                Severity.WARNING,
                "same_prefix",
                ("TORCH_FR_DUMP_TEMP_FILE",),
                f"{len(owners)} of them write dumps to {quoted(prefix)}<rank>",
                "put the instance's name into the path, unless they are one instance and the ranks differ",
                where=", ".join(sorted(owners)),
            )


RULES = (shared_memory, memory_lock, volumes)
