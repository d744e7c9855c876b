"""Where ranks without a dump stand, as their own watchdogs said: last enqueued, last completed, what timed out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from rankmuster.diagnose.roll import Head, RollTable
from rankmuster.model.frameworklog import WatchdogTimeout, WorkStatus
from rankmuster.model.job import Group, RankGroupView

OPS = {
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "allreduce_coalesced",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "_all_gather_base",
    "ALLGATHER_COALESCED": "ALLGATHER_coalesced",
    "REDUCE_SCATTER": "reduce_scatter",
    "_REDUCE_SCATTER_BASE": "_reduce_scatter_base",
    "BROADCAST": "broadcast",
    "REDUCE": "reduce",
    "GATHER": "gather",
    "SCATTER": "scatter",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all",
    "BARRIER": "barrier",
    "SEND": "send",
    "RECV": "recv",
    "COALESCED": "coalesced",
}
"""OpType as torch logs it -> the recorder's name (torch/csrc/distributed/c10d/Types.hpp, Work.cpp)."""


def op_name(logged: str | None) -> str:
    """The recorder's name of a logged OpType."""
    return OPS.get(logged or "", (logged or "unknown").lower())


def augment(
    table: RollTable,
    timeouts: Iterable[WatchdogTimeout],
    statuses: Iterable[WorkStatus],
    world: tuple[int, ...],
) -> RollTable:
    """The table with views and heads for ranks that left no dump but whose log says where they stood.

    A log is only asked where the recorder is silent: it names one number per group, the recorder all of them.
    """
    issued: dict[tuple[str, int], int] = {}
    finished: dict[tuple[str, int], int] = {}
    failed: dict[tuple[str, int], tuple[int, str | None]] = {}
    labels: dict[str, tuple[str, str]] = {}
    lines: list[WatchdogTimeout | WorkStatus] = [*timeouts, *statuses]
    for line in lines:
        rank = line.origin.rank
        if rank is None or rank in table.rows:
            continue
        name = line.group if line.group is not None else "0"
        labels.setdefault(name, (name, line.group_desc or ("default_pg" if name == "0" else "")))
        place = (name, rank)
        if isinstance(line, WatchdogTimeout):
            if line.seq is not None and line.seq >= 0:
                known = failed.get(place)
                if known is None or line.seq < known[0] or (line.seq == known[0] and known[1] is None):
                    failed[place] = (line.seq, line.op)
                issued[place] = max(issued.get(place, -1), line.seq)
            continue
        if line.last_enqueued is not None:
            issued[place] = max(issued.get(place, -1), line.last_enqueued)
        if line.last_completed is not None:
            # Numbers only grow until the time-out; after it aborts may count work as completed.
            finished.setdefault(place, line.last_completed)
        if line.failed_seq is not None and place not in failed:
            failed[place] = (line.failed_seq, None)
    if not issued and not failed:
        return table
    groups, key_of = _groups(table, labels, world, {rank for _, rank in (*issued, *failed)})
    views = dict(table.views)
    heads = dict(table.heads)
    for place in sorted({*issued, *failed}):
        name, rank = place
        key = key_of.get((name, rank))
        if key is None:
            continue
        enqueued = issued.get(place, -1)
        completed = finished.get(place, (failed[place][0] - 1) if place in failed else enqueued)
        views[(key, rank)] = RankGroupView(rank, enqueued, completed, from_log=True)
        if rank in heads and heads[rank] is not None:
            continue
        if place in failed:
            seq, op = failed[place]
            heads[rank] = Head(rank, key, seq, op_name(op), -1, False, 0.0)
        elif enqueued > completed:
            heads[rank] = Head(rank, key, completed + 1, "unknown", -1, False, 0.0)
        else:
            heads.setdefault(rank, None)
    return replace(table, groups=groups, views=views, heads=heads)


def _groups(
    table: RollTable, labels: dict[str, tuple[str, str]], world: tuple[int, ...], speakers: set[int]
) -> tuple[tuple[Group, ...], dict[tuple[str, int], int]]:
    groups = list(table.groups)
    key_of: dict[tuple[str, int], int] = {}
    made: dict[str, int] = {}
    members_of: dict[str, set[int]] = defaultdict(set)
    for rank in sorted(speakers):
        for name, (_, desc) in labels.items():
            found = next(
                (
                    group.key
                    for group in table.groups
                    if rank in group.members and (group.name == name or (desc and group.desc == desc))
                ),
                None,
            )
            if found is not None:
                key_of[(name, rank)] = found
            else:
                members_of[name].add(rank)
    for name, ranks in members_of.items():
        _, desc = labels[name]
        is_default = name == "0" or desc == "default_pg"
        members = tuple(world) if is_default and world else tuple(sorted(ranks))
        made[name] = len(groups)
        groups.append(Group(len(groups), name, desc, members))
        for rank in ranks:
            key_of[(name, rank)] = made[name]
    return tuple(groups), key_of
