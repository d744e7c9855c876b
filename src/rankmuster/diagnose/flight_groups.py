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
    dumps: Mapping[int, FlightDump], world: tuple[int, ...] = (), world_told: bool = False
) -> tuple[tuple[Group, ...], dict[tuple[int, int], int]]:
    """All groups, and (rank, index in its dump) -> group key. `world`: every rank of the job, where that is known.
    `world_told`: somebody says how many there are; else a last rank without a dump is not among them.

    Where a dump has no usable table (gloo's is broken), members are inferred from who uses the same (name, desc); only
    the whole job's group is known to hold those too who left no dump.
    """
    sets = _MemberSets()
    users: dict[tuple[str, str], set[int]] = defaultdict(set)
    told: dict[tuple[str, str], dict[int, None]] = defaultdict(dict)
    for rank, dump in dumps.items():
        for group in dump.columns.groups:
            users[(group.name, group.desc)].add(rank)
            if group.members:
                told[(group.name, group.desc)][sets.number(group.members)] = None
    inferred = _Inferred(sets, users, told, world)

    buckets: dict[int, dict[int, list[tuple[int, FlightGroup]]]] = defaultdict(lambda: defaultdict(list))
    for rank, dump in dumps.items():
        for index, group in enumerate(dump.columns.groups):
            own = sets.number(group.members) if group.members else inferred.of(rank, group)
            buckets[own][rank].append((index, group))

    groups: list[Group] = []
    local: dict[tuple[int, int], int] = {}
    for members, number in sorted((sets.members(number), number) for number in buckets):
        for matched in _same_members(buckets[number]):
            key = len(groups)
            names = Counter(group.name for _, _, group in matched)
            descs = Counter(group.desc for _, _, group in matched)
            name, desc = names.most_common(1)[0][0], descs.most_common(1)[0][0]
            told_here = any(group.members for _, _, group in matched) or (world_told and desc == WHOLE)
            groups.append(Group(key, name, desc, members, inferred=not told_here))
            for rank, index, _ in matched:
                local[(rank, index)] = key
    return tuple(groups), local


class _MemberSets:
    """Member sets by number: one that stands in the dumps of thousands is compared with the others once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._seen: dict[int, tuple[int, tuple[int, ...]]] = {}  # by identity; holds them, so that it stays theirs
        self._members: list[tuple[int, ...]] = []

    def number(self, members: tuple[int, ...]) -> int:
        seen = self._seen.get(id(members))
        if seen is None:
            number = self._numbers.setdefault(members, len(self._members))
            if number == len(self._members):
                self._members.append(members)
            seen = self._seen[id(members)] = (number, members)
        return seen[0]

    def members(self, number: int) -> tuple[int, ...]:
        return self._members[number]


class _Inferred:
    """Members of groups whose own dump does not tell them."""

    def __init__(
        self,
        sets: _MemberSets,
        users: Mapping[tuple[str, str], set[int]],
        told: Mapping[tuple[str, str], Mapping[int, None]],
        world: tuple[int, ...],
    ) -> None:
        self._sets, self._users, self._told, self._world = sets, users, told, world
        self._ranks = frozenset(world)
        self._all: dict[tuple[str, str], int] = {}

    def of(self, rank: int, group: FlightGroup) -> int:
        """The number of the member set: what another member's dump says, the whole job, or all who use the name."""
        name = (group.name, group.desc)
        fitting = [number for number in self._told.get(name, ()) if rank in self._sets.members(number)]
        if len(fitting) == 1:
            return fitting[0]
        if group.desc == WHOLE and not fitting and self._users[name] <= self._ranks:
            return self._sets.number(self._world)
        if name not in self._all:
            self._all[name] = self._sets.number(tuple(sorted(self._users[name])))
        return self._all[name]


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
