"""Which ranks form which groups, how engines name them, and which channel a rank's call goes through.

Ranks are laid out as Megatron does: tensor fastest, then data, then pipeline. Names count up over all groups that any
process creates (a process that is no member creates no communicator, but the name is taken); engines that make a gloo
group beside each take every second. `pg_id` counts the process's own groups.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from benchmarks.flight.calls import Pg, Slot
from benchmarks.flight.settings import Settings, Style
from numpy.typing import NDArray

_DESCS = {
    Pg.TP: "TENSOR_MODEL_PARALLEL_GROUP",
    Pg.DP: "DATA_PARALLEL_GROUP",
    Pg.EP: "EXPERT_MODEL_PARALLEL_GROUP",
    Pg.PP: "PIPELINE_MODEL_PARALLEL_GROUP",
}


@dataclass(frozen=True, slots=True)
class Group:
    """One process group of the job."""

    kind: Pg
    name: str
    desc: str
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """All groups and channels. `groups_of[rank]`: in order of creation, so that the index is the local pg_id.

    `channel`: shape (ranks, slots), -1 where the rank has none. `sizes`: members per channel, shape (channels,).
    `root`: first member per channel.
    """

    stage: NDArray[np.int64]  # (ranks,)
    groups: tuple[Group, ...]
    groups_of: tuple[tuple[Group, ...], ...]
    channel: NDArray[np.int64]
    sizes: NDArray[np.int64]
    root: NDArray[np.int64]
    members: tuple[tuple[int, ...], ...]

    def pg_id(self, rank: int, kind: Pg) -> int:
        return next(index for index, group in enumerate(self.groups_of[rank]) if group.kind == kind)

    def position(self, rank: int, kind: Pg) -> int:
        """The rank's place in its group."""
        return self.groups_of[rank][self.pg_id(rank, kind)].members.index(rank)


def _member_sets(job: Settings) -> list[tuple[Pg, tuple[int, ...]]]:
    per_stage = job.tp * job.dp
    found: list[tuple[Pg, tuple[int, ...]]] = [(Pg.WORLD, tuple(range(job.ranks)))]
    for first in range(0, job.ranks, job.tp):
        if job.tp > 1:
            found.append((Pg.TP, tuple(range(first, first + job.tp))))
    for stage in range(job.pp):
        for lane in range(job.tp):
            if job.dp > 1:
                base = stage * per_stage + lane
                found.append((Pg.DP, tuple(range(base, base + per_stage, job.tp))))
    for first in range(0, job.ranks, job.ep):
        if job.ep > 1:
            found.append((Pg.EP, tuple(range(first, first + job.ep))))
    for column in range(per_stage):
        if job.pp > 1:
            found.append((Pg.PP, tuple(range(column, job.ranks, per_stage))))
    return found


def build(job: Settings) -> Layout:
    """The layout of a job.

    Raises ValueError where expert groups do not fit into a stage.
    """
    if (job.tp * job.dp) % job.ep:
        raise ValueError(f"expert groups of {job.ep} do not divide a stage of {job.tp * job.dp} ranks")
    step = 1 if job.style is Style.MEGATRON else 2
    groups = []
    for number, (kind, members) in enumerate(_member_sets(job)):
        name = str(number * step)
        desc = "default_pg" if kind is Pg.WORLD else "undefined"
        if kind is not Pg.WORLD and job.hashed:
            name = hashlib.sha1(f"{kind.name}{members}".encode(), usedforsecurity=False).hexdigest()
        if kind is not Pg.WORLD and job.style is Style.MEGATRON:
            desc = _DESCS[kind]
        groups.append(Group(kind, name, desc, members))
    groups_of: list[list[Group]] = [[] for _ in range(job.ranks)]
    for group in groups:
        if group.kind is Pg.PP and job.world_messages:
            continue  # a group without a call has no communicator, and no line in the table
        for rank in group.members:
            groups_of[rank].append(group)
    return _with_channels(job, groups, groups_of)


def _with_channels(job: Settings, groups: list[Group], groups_of: list[list[Group]]) -> Layout:
    channel = np.full((job.ranks, len(Slot)), -1, np.int64)
    members: list[tuple[int, ...]] = []
    for group in groups:
        if group.kind is not Pg.PP:
            channel[list(group.members), Slot(int(group.kind))] = len(members)
            members.append(group.members)
            continue
        for near, far in zip(group.members, group.members[1:], strict=False):
            channel[near, Slot.PP_NEXT] = channel[far, Slot.PP_PREV] = len(members)
            members.append((near, far))
    return Layout(
        stage=np.arange(job.ranks) // (job.tp * job.dp),
        groups=tuple(groups),
        groups_of=tuple(map(tuple, groups_of)),
        channel=channel,
        sizes=np.array([len(ranks) for ranks in members], np.int64),
        root=np.array([ranks[0] for ranks in members], np.int64),
        members=tuple(members),
    )
