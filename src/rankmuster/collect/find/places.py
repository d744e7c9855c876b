"""Who of an instance's processes has which rank. Pure.

A rank in the environment is inherited by everything that the rank's process starts, and given to the shell that starts
it: of those that name one rank, one is its holder. Titles outrank variables: the server of a vLLM instance may well
have SLURM_PROCID=0, while its workers carry the ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from rankmuster.collect.find import options, ranks, titles
from rankmuster.collect.find.options import Shape
from rankmuster.collect.find.ranks import Place
from rankmuster.collect.find.seen import Seen, Table
from rankmuster.collect.target import Role


@dataclass(frozen=True, slots=True)
class Places:
    """`held`: pid -> place. `doubled`: ranks that several processes claim which have nothing else to do with one
    another, with their pids. `shape`: parallel sizes, None when nothing says them."""

    held: dict[int, Place]
    doubled: dict[int, tuple[int, ...]]
    shape: Shape | None
    world: int | None


def places(table: Table, group: Set[int], on_gpu: Set[int], has_nccl: Callable[[int], bool]) -> Places:
    """The holders of ranks in one instance. `has_nccl` is asked only where processes of one lineage share a rank."""
    processes = [table[pid] for pid in sorted(group)]
    shape = _shape(processes)
    by_title = _by_title(processes, shape)
    if by_title:
        return _titled(by_title, shape)
    claims = _claims(processes)
    held: dict[int, Place] = {}
    doubled: dict[int, tuple[int, ...]] = {}
    for rank in sorted({place.rank for place in claims.values()}):
        pids = [pid for pid, place in claims.items() if place.rank == rank]
        holders = _holders(table, pids, on_gpu, has_nccl)
        held |= {pid: claims[pid] for pid in holders}
        if len(holders) > 1:
            doubled[rank] = tuple(holders)
    worlds = [place.world for place in held.values() if place.world is not None]
    world = max(worlds) if worlds else (shape.world if shape is not None else None)
    return Places(held, doubled, shape, world)


def _shape(processes: list[Seen]) -> Shape | None:
    for seen in processes:
        if seen.known is not None and seen.known.role in (Role.SERVER, Role.ENGINE) and seen.command:
            given = options.shape(seen.command, seen.known.engine)
            if given.given:
                return given
    workers = [seen.known for seen in processes if seen.known is not None and seen.known.role is Role.WORKER]
    titled = [known for known in workers if "::" in known.name and not known.name.startswith("ray::")]
    shape = ranks.shape_of_titles(titled) if titled else None
    if shape is not None:
        return shape
    single = any(seen.known is not None and seen.known.engine in (titles.VLLM, titles.SGLANG) for seen in processes)
    return Shape() if single and not titled and not workers else None


def _by_title(processes: list[Seen], shape: Shape | None) -> dict[int, Place]:
    found: dict[int, Place] = {}
    workers = any(seen.known is not None and seen.known.role is Role.WORKER for seen in processes)
    for seen in processes:
        if seen.known is None:
            continue
        place = ranks.from_title(seen.known, shape) if shape is not None else ranks.from_single_part(seen.known)
        if place is None and not workers and shape is not None:
            place = ranks.of_uniprocess(seen.known, shape)
        if place is not None:
            found[seen.pid] = place
    return found


def _titled(found: dict[int, Place], shape: Shape | None) -> Places:
    by_rank: dict[int, list[int]] = {}
    for pid, place in found.items():
        by_rank.setdefault(place.rank, []).append(pid)
    doubled = {rank: tuple(pids) for rank, pids in by_rank.items() if len(pids) > 1}
    return Places(found, doubled, shape, shape.world if shape is not None else None)


def _claims(processes: list[Seen]) -> dict[int, Place]:
    """What variables say, of the largest world alone: a launcher's proxy is rank 0 of a world of its own."""
    found: dict[int, Place] = {}
    for seen in processes:
        place = ranks.from_environ(seen.environ) if seen.environ else None
        # A launcher, a helper or a server has its job's variables, and the ranks are below it.
        ranked = seen.known is None or seen.known.role in (Role.WORKER, Role.ENGINE)
        if place is not None and ranked:
            found[seen.pid] = place
    largest = max((place.world or 0 for place in found.values()), default=0)
    return {pid: place for pid, place in found.items() if (place.world or 0) == largest}


def _holders(table: Table, pids: list[int], on_gpu: Set[int], has_nccl: Callable[[int], bool]) -> list[int]:
    """One of each lineage."""
    if len(pids) == 1:
        return pids
    chosen: list[int] = []
    for lineage in _lineages(table, pids):
        working = [pid for pid in lineage if not titles.is_wrapper(table[pid].command, table[pid].stat.comm)] or lineage
        best = [pid for pid in working if pid in on_gpu]
        if not best and len(working) > 1:
            best = [pid for pid in working if has_nccl(pid)]
        chosen.append((best or working)[0])
    return chosen


def _lineages(table: Table, pids: list[int]) -> list[list[int]]:
    """Pids by their topmost ancestor among them, each list from the top down."""
    found: dict[int, list[int]] = {}
    depth: dict[int, int] = {}
    for pid in pids:
        above = [ancestor for ancestor in table.ancestors(pid) if ancestor in pids]
        depth[pid] = len(above)
        found.setdefault(above[-1] if above else pid, []).append(pid)
    return [sorted(lineage, key=lambda pid: (depth[pid], pid)) for lineage in found.values()]


def apart(table: Table, group: frozenset[int], doubled: dict[int, tuple[int, ...]]) -> list[frozenset[int]]:
    """The group cut where its ranks are doubled: by container, else by the topmost process of each.

    One set where neither tells the claimants apart.
    """
    claimants = [pid for pids in doubled.values() for pid in pids]
    tops = {pid: _top(table, pid, group) for pid in group}
    by_container = {pid: table[tops[pid]].container or "" for pid in group}
    for labels in (by_container, {pid: str(tops[pid]) for pid in group}):
        if all(len({labels[pid] for pid in pids}) == len(pids) for pids in doubled.values()) and claimants:
            parts: dict[str, set[int]] = {}
            for pid in group:
                parts.setdefault(labels[pid], set()).add(pid)
            return [frozenset(part) for _, part in sorted(parts.items())]
    return [group]


def _top(table: Table, pid: int, group: frozenset[int]) -> int:
    top = pid
    for ancestor in table.ancestors(pid):
        if ancestor not in group:
            break
        top = ancestor
    return top
