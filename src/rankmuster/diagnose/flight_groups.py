"""Process groups over all dumps: joined by members, not by names, which may differ between ranks or repeat."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from rankmuster.model.flight import FlightDump, FlightGroup
from rankmuster.model.job import Group


def infer_rank(dump: FlightDump) -> int | None:
    """The rank of a dump without one: the only member that all its groups share, or the name of its own sends."""
    shared: set[int] | None = None
    for group in dump.columns.groups:
        if group.members:
            shared = set(group.members) if shared is None else shared & set(group.members)
    if shared and len(shared) == 1:
        return shared.pop()
    own: Counter[int] = Counter()
    for op in dump.columns.ops:
        words = op.split(":", 1)[-1].split()
        if len(words) == 2 and words[0] in ("send", "recv"):
            first = words[1].replace("<-", "->").split("->", 1)[0]
            if first.isdigit() and len(first) <= 6:
                own[int(first)] += 1
    return own.most_common(1)[0][0] if len(own) == 1 else None


WHOLE = "default_pg"
"""How torch describes the group of `init_process_group`, which holds every rank of the job (distributed_c10d.py)."""


def align(
    dumps: Mapping[int, FlightDump], world: tuple[int, ...] = ()
) -> tuple[tuple[Group, ...], dict[tuple[int, int], int]]:
    """All groups, and (rank, index in its dump) -> group key. `world`: every rank of the job, where that is known.

    Where a dump has no usable table (gloo's is broken), members are inferred from who uses the same (name, desc); only
    the whole job's group is known to hold those too who left no dump.
    """
    users: dict[tuple[str, str], set[int]] = defaultdict(set)
    told: dict[tuple[str, str], set[tuple[int, ...]]] = defaultdict(set)
    for rank, dump in dumps.items():
        for group in dump.columns.groups:
            users[(group.name, group.desc)].add(rank)
            if group.members:
                told[(group.name, group.desc)].add(group.members)

    buckets: dict[tuple[int, ...], dict[int, list[tuple[int, FlightGroup]]]] = defaultdict(lambda: defaultdict(list))
    for rank, dump in dumps.items():
        for index, group in enumerate(dump.columns.groups):
            buckets[_members(rank, group, users, told, world)][rank].append((index, group))

    groups: list[Group] = []
    local: dict[tuple[int, int], int] = {}
    for members in sorted(buckets):
        for matched in _same_members(buckets[members]):
            key = len(groups)
            names = Counter(group.name for _, _, group in matched)
            descs = Counter(group.desc for _, _, group in matched)
            groups.append(Group(key, names.most_common(1)[0][0], descs.most_common(1)[0][0], members))
            for rank, index, _ in matched:
                local[(rank, index)] = key
    return tuple(groups), local


def _members(
    rank: int,
    group: FlightGroup,
    users: Mapping[tuple[str, str], set[int]],
    told: Mapping[tuple[str, str], set[tuple[int, ...]]],
    world: tuple[int, ...],
) -> tuple[int, ...]:
    if group.members:
        return group.members
    fitting = [members for members in told[(group.name, group.desc)] if rank in members]
    if len(fitting) == 1:
        return fitting[0]
    if group.desc == WHOLE and not fitting and users[(group.name, group.desc)] <= set(world):
        return world
    return tuple(sorted(users[(group.name, group.desc)]))


def _same_members(
    by_rank: Mapping[int, list[tuple[int, FlightGroup]]],
) -> list[list[tuple[int, int, FlightGroup]]]:
    """Groups of one member set, matched over ranks: one each, else by name, else by order of creation."""
    if all(len(found) == 1 for found in by_rank.values()):
        return [[(rank, *found[0]) for rank, found in sorted(by_rank.items())]]
    names = [frozenset(group.name for _, group in found) for found in by_rank.values()]
    common = frozenset.intersection(*names)
    by_name: dict[object, list[tuple[int, int, FlightGroup]]] = defaultdict(list)
    for rank, found in sorted(by_rank.items()):
        rest = 0
        for index, group in sorted(found, key=lambda item: (item[1].pg_id is None, item[1].pg_id or 0)):
            if group.name in common or len(frozenset.union(*names)) == len(max(names, key=len)):
                by_name[group.name].append((rank, index, group))
            else:
                by_name[rest].append((rank, index, group))
                rest += 1
    return list(by_name.values())
