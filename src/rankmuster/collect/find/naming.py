"""What an instance is called. The same name on every node and after every restart, as far as anything allows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone

from rankmuster.collect.find import options, titles
from rankmuster.collect.find.options import Shape
from rankmuster.collect.find.seen import DEPLOYMENT, INCARNATION, INSTANCE, Seen
from rankmuster.collect.target import Role

MAX_NAME = 100
_UNSAFE = re.compile(r"[^\w.@:+\-]+")


def engine(processes: Iterable[Seen]) -> str | None:
    """The serving engine, else what launched the ranks."""
    found = [seen.known.engine for seen in processes if seen.known is not None and seen.known.engine]
    serving = [name for name in found if name not in (titles.TORCH, titles.MPI, titles.RAY)]
    if serving:
        return max(sorted(set(serving)), key=serving.count)
    ranked = any("RANK" in seen.environ and "WORLD_SIZE" in seen.environ for seen in processes)
    if titles.TORCH in found or ranked:
        return titles.TORCH
    return found[0] if found else None


def setting(processes: Iterable[Seen], *names: str) -> str | None:
    """The first of the variables that any process has."""
    for name in names:
        for seen in processes:
            if seen.environ.get(name):
                return seen.environ[name]
    return None


def name(processes: Sequence[Seen], engine_name: str | None, shape: Shape | None, rank_sources: Iterable[str]) -> str:
    """By our own marker; the group's address, step or run; the engine and its address; at last the oldest pid."""
    marker = setting(processes, INSTANCE)
    if marker is not None:
        return clean(marker)
    leader = setting(processes, "LWS_LEADER_ADDRESS")
    if leader is not None:
        return clean(leader.partition(".")[0])
    sources = set(rank_sources)
    job = setting(processes, "SLURM_JOB_ID")
    if job is not None and ("slurm" in sources or "torch" in sources or "mpi" in sources):
        step = setting(processes, "SLURM_STEP_ID")
        return clean(f"slurm-{job}" + (f".{step}" if step is not None and step.isdigit() else ""))
    run = setting(processes, "TORCHELASTIC_RUN_ID")
    if run is not None and run != "none" and "torch" in sources:
        return clean(f"torchrun-{run}")
    word = engine_name or "process"
    ray = next((seen.ray_job for seen in processes if seen.ray_job is not None), None)
    if ray is not None:  # the port is known on the driver's node alone
        return clean(f"{word}-ray-{ray[1]}")
    served = _address(processes, engine_name, shape)
    if served is not None:
        return clean(f"{word}-{served}")
    port = setting(processes, "MASTER_PORT")
    if "torch" in sources and port is not None:
        return clean(f"{word}-{port}")
    job_id = setting(processes, "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid") if "mpi" in sources else None
    if job_id is not None:
        return clean(f"mpi-{job_id}")
    return f"{word}-pid{min(processes, key=lambda seen: seen.stat.start_ticks).pid}"


def _address(processes: Sequence[Seen], engine_name: str | None, shape: Shape | None) -> str | None:
    """On several nodes only the rendezvous is known to all; on one, the port by which clients know the instance."""
    for seen in processes:
        if seen.known is None or seen.known.role not in (Role.SERVER, Role.ENGINE) or not seen.command:
            continue
        shared = options.rendezvous(seen.command)
        several = shape is not None and (shape.nodes > 1 or shape.dp_rank is not None)
        if shared is not None and (several or options.has(seen.command, "--headless")):
            return shared
        served = options.address(seen.command, engine_name or "")
        if served is not None and seen.known.role is Role.SERVER and "::" not in seen.known.name:
            return str(served[1])
    return None


def clean(text: str) -> str:
    """A name without blanks and signs; never empty."""
    return _UNSAFE.sub("-", text).strip("-")[:MAX_NAME] or "unnamed"


def deployment(processes: Iterable[Seen]) -> str | None:
    """The revision that whoever deployed it gave."""
    found = setting(processes, DEPLOYMENT)
    return clean(found) if found is not None else None


def incarnation(processes: Sequence[Seen], oldest_start: float) -> str:
    """Start of the oldest process (UTC, whole seconds), how often torchrun has restarted its workers, the pods' UIDs.

    A machine whose clock is set while the instance runs gives another start: then nothing that was decided for the
    earlier one is done to it, which is the safe side.
    """
    marker = setting(processes, INCARNATION)
    if marker is not None:
        return clean(marker)
    began = datetime.fromtimestamp(max(int(oldest_start), 0), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    restarts = setting(processes, "TORCHELASTIC_RESTART_COUNT")
    pods = sorted({pod for seen in processes if (pod := seen.pod or seen.environ.get("POD_UID")) is not None})
    parts = [began, *([f"restart-{restarts}"] if restarts not in (None, "0") else []), *pods]
    return clean("+".join(parts))


def distinct(names: Sequence[str], pids: Sequence[int]) -> list[str]:
    """Names of several instances of one node: those that are alike get the pid of their oldest process."""
    return [f"{one}-pid{pid}" if list(names).count(one) > 1 else one for one, pid in zip(names, pids, strict=True)]


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that a child has from its parent, without those that place the parent itself."""
    return {key: value for key, value in environ.items() if key not in _PLACING}


_PLACING = frozenset({
    "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_NODE_RANK", "PMIX_RANK", "PMI_RANK", "PMI_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_PROCID",
    "SLURM_LOCALID", "SLURM_TASK_PID",
})  # fmt: skip
