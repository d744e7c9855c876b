"""Global ranks of processes that a launcher names by their local rank alone: on one node the two are the same.

torchrun writes `failed (exitcode: -9) local_rank: 2 (pid: 32497)` at once and its table with global ranks at the end,
which a log that was taken early does not have. Where all ranks are dead, nothing else may name them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rankmuster.evidence.bundle import Evidence
from rankmuster.model.frameworklog import WorkerDeath
from rankmuster.model.instance import InstanceFacts

_LOCAL = re.compile(r"local_rank (\d{1,6})")

SINGLE_NODE = {
    "NNODES": "1",
    "PET_NNODES": "1",
    "GROUP_WORLD_SIZE": "1",
    "SLURM_NNODES": "1",
    "NODE_RANK": "0",
    "PET_NODE_RANK": "0",
    "GROUP_RANK": "0",
    "SLURM_NODEID": "0",
}
"""Variables of launchers, with the value that a job of one node has (torch.distributed.run, srun)."""


@dataclass(frozen=True, slots=True)
class LaunchedRank:
    rank: int
    pid: int | None
    host: str | None


def on_one_node(
    evidence: Evidence, facts: InstanceFacts | None, known: Collection[int], hosts: Collection[str], others: bool
) -> tuple[LaunchedRank, ...]:
    """The ranks that launchers name by local rank; none where anything contradicts one node. Where nothing else tells
    of any rank, the launcher's word is all there is, and is taken.

    `known`: ranks that other evidence names; `hosts`: their hosts. `others`: communicators tell of more ranks.
    """
    deaths = [(int(match.group(1)), death) for death in evidence.of(WorkerDeath) if (match := _local(death))]
    locals_of: dict[int, set[int | None]] = defaultdict(set)
    for local, death in deaths:
        if death.rank is not None and death.rank != local:
            return ()
        locals_of[local].add(death.pid)
    places = {*hosts, *(death.host for _, death in deaths if death.host)}
    restarted = any(len(pids) > 1 for pids in locals_of.values())
    if not locals_of or restarted or len(places) > 1 or _several_nodes(facts):
        return ()
    if not _supported(facts, set(locals_of), known, others):
        return ()
    host = next(iter(places), None)
    return tuple(LaunchedRank(local, next(iter(locals_of[local])), host) for local in sorted(locals_of))


def _local(death: WorkerDeath) -> re.Match[str] | None:
    return _LOCAL.fullmatch(death.worker) if death.engine == "torchrun" else None


def _several_nodes(facts: InstanceFacts | None) -> bool:
    settings: Mapping[str, str] = facts.environment if facts is not None else {}
    if any(settings.get(name, single) != single for name, single in SINGLE_NODE.items()):
        return True
    local, world = settings.get("LOCAL_WORLD_SIZE"), settings.get("WORLD_SIZE")
    return local is not None and world is not None and local != world


def _supported(facts: InstanceFacts | None, locals_: set[int], known: Collection[int], others: bool) -> bool:
    """Whether all of the job's ranks can be these: a process whose two numbers are known settles it either way."""
    both = [p for p in facts.processes if p.local_rank is not None] if facts is not None else []
    if both:
        return all(process.local_rank == process.rank for process in both)
    world = facts.world_size if facts is not None else None
    if world is not None or known or others:
        return locals_ == set(known or range(world or 0)) and not others
    return True
