"""Who waits for whom, as places: all who stand at one operation wait for the same ranks.

A job of thousands stands at a few operations, so that places and their targets stay few where pairs would be millions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Reason(str, Enum):
    """Why a waiter cannot go on without a target."""

    NOT_ENTERED = "not entered"  # the target has not enqueued this collective
    HELD_BEFORE = "held before"  # it has, but stands at an earlier operation
    NO_SEND = "no send"
    NO_RECEIVE = "no receive"
    NO_DUMP = "no dump"  # everybody else has entered; neither dump nor log places this member in the group


@dataclass(frozen=True, slots=True)
class Edge:
    """One waiter and one target. `seq`: None for sends and receives."""

    waiter: int
    target: int
    reason: Reason
    group: int
    seq: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """One place: an operation, who stands at it, in order of arrival where times say it, and for whom they wait."""

    group: int
    seq: int | None
    waiters: tuple[int, ...]
    targets: tuple[tuple[int, Reason], ...]

    def edges(self, among: Collection[int] | None = None) -> Iterator[Edge]:
        """One edge per target, from the first waiter (`among` these) that is not itself the target."""
        waiters = self.waiters if among is None else tuple(rank for rank in self.waiters if rank in among)
        for target, reason in self.targets:
            waiter = next((rank for rank in waiters if rank != target), None)
            if waiter is not None:
                yield Edge(waiter, target, reason, self.group, self.seq)


@dataclass(frozen=True, slots=True, eq=False)
class WaitGraph:
    """`of`: the place of each rank that stands at something.

    `older`: (group, rank) whose dump was taken before its peers'.
    """

    of: Mapping[int, Wait]
    older: frozenset[tuple[int, int]]
    _for: Mapping[int, tuple[Wait, ...]] = field(init=False, repr=False)  # the places that wait for each rank

    def __post_init__(self) -> None:
        places: dict[int, list[Wait]] = defaultdict(list)
        for wait in self.waits():
            for target in {target for target, _ in wait.targets}:
                places[target].append(wait)
        object.__setattr__(self, "_for", {target: tuple(found) for target, found in places.items()})

    def waits(self, among: Iterable[int] | None = None) -> Iterator[Wait]:
        """The places, each once; those of `among` alone where given."""
        seen: set[int] = set()
        for rank in self.of if among is None else among:
            wait = self.of.get(rank)
            if wait is not None and id(wait) not in seen:
                seen.add(id(wait))
                yield wait

    def edges_of(self, rank: int) -> tuple[Edge, ...]:
        """For whom `rank` waits."""
        wait = self.of.get(rank)
        if wait is None:
            return ()
        return tuple(Edge(rank, target, why, wait.group, wait.seq) for target, why in wait.targets if target != rank)

    def is_held(self, rank: int) -> bool:
        """Whether `rank` waits for somebody."""
        wait = self.of.get(rank)
        return wait is not None and any(target != rank for target, _ in wait.targets)

    def waiting_for(self, targets: Collection[int]) -> set[int]:
        """Everybody who waits for one of `targets`, directly or through others."""
        seen: set[int] = set()
        done: set[int] = set()
        stack = list(targets)
        while stack:
            target = stack.pop()
            for wait in self._for.get(target, ()):
                if id(wait) in done:
                    continue
                others = [rank for rank in wait.waiters if rank != target]
                stack += [rank for rank in others if rank not in seen]
                seen.update(others)
                # A waiter that is its own target has not been counted; another target of the place counts it.
                if len(others) == len(wait.waiters):
                    done.add(id(wait))
        return seen

    def cycle(self) -> frozenset[int]:
        """The ranks of a cycle that waits for nobody outside it; empty where there is none."""
        closed = [ring for ring in self._components() if len(ring) > 1 and self._closed(ring)]
        return min(closed, key=min) if closed else frozenset()

    def _closed(self, ring: frozenset[int]) -> bool:
        return all(target in ring for wait in self.waits(ring) for target, _ in wait.targets)

    def _components(self) -> Iterator[frozenset[int]]:
        """Strongly connected ranks (Tarjan 1972, without recursion); a rank's successors are its place's targets."""
        index: dict[object, int] = {}
        low: dict[object, int] = {}
        on_stack: set[object] = set()
        stack: list[object] = []

        def successors(node: object) -> Iterator[object]:
            if isinstance(node, Wait):
                return (target for target, _ in node.targets)
            wait = self.of.get(node) if isinstance(node, int) else None
            return iter((wait,) if wait is not None and wait.targets else ())

        for root in self.of:
            if root in index:
                continue
            work: list[tuple[object, Iterator[object]]] = [(root, successors(root))]
            index[root] = low[root] = len(index)
            stack.append(root)
            on_stack.add(root)
            while work:
                node, following = work[-1]
                after = next(following, None)
                if after is None:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == index[node]:
                        component = []
                        while True:
                            member = stack.pop()
                            on_stack.discard(member)
                            component.append(member)
                            if member is node:
                                break
                        yield frozenset(member for member in component if isinstance(member, int))
                elif after not in index:
                    index[after] = low[after] = len(index)
                    stack.append(after)
                    on_stack.add(after)
                    work.append((after, successors(after)))
                elif after in on_stack:
                    low[node] = min(low[node], index[after])
