"""Jobs with timing as columns, without a recorder between: hosts compute, ranks arrive, collectives take their time.

A step of a job: every rank computes, then calls the collectives of its groups in order; a collective starts for a rank
when it arrives and ends for all `transfer` after the last has arrived. The dumps are made from their durations alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankmuster.diagnose import context as contexts
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.evidence.bundle import Evidence, gather
from rankmuster.model.flight import FlightColumns, FlightDump, FlightGroup, Floats, PgStatus, State

START = 1_795_980_000.0


@dataclass(frozen=True)
class Kind:
    """One collective of a step, by all groups of one layout. `transfer`: ms."""

    layout: int
    op: str = "all_reduce"
    sizes: tuple[int, ...] = (16, 4096)
    outs: tuple[int, ...] | None = None
    dtype: str = "BFloat16"
    transfer: float = 0.05


@dataclass(frozen=True)
class SlowWorld:
    """`layouts`: per layout the member sets of its groups, and what they are called. `compute`: ms of a step.

    `jitter`: log-normal sigma of computing and transfer. `late`: rank -> ms by which it comes later, an array per step
    or one number. `grown`: (layout, group index or None for all) -> factor per step. `biased`: rank -> microseconds it
    launches after its peers, always. `clocks`: rank -> seconds that its host's clock is ahead.
    """

    layouts: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
    kinds: tuple[Kind, ...]
    steps: int = 400
    compute: float = 10.0
    jitter: float = 0.1
    late: Mapping[int, float | Floats] | None = None
    grown: Mapping[tuple[int, int | None], float | Floats] | None = None
    biased: Mapping[int, float] | None = None
    clocks: Mapping[int, float] | None = None
    timing: bool = True
    seed: int = 1
    absent: frozenset[int] = frozenset()
    library: str = "2.28.9"

    @property
    def size(self) -> int:
        return 1 + max(rank for _, groups in self.layouts for group in groups for rank in group)


def tensor_parallel(ranks: int, width: int, **fields: object) -> SlowWorld:
    """`ranks` in groups of `width`, with one group of all; an all-reduce, an all-gather, a barrier-like all-reduce."""
    tp = tuple(tuple(range(start, start + width)) for start in range(0, ranks, width))
    layouts = (("tp", tp), ("default_pg", (tuple(range(ranks)),)))
    kinds = (
        Kind(0),
        Kind(0, "_all_gather_base", (16, 8000), (width, 16, 8000), transfer=0.12),
        Kind(1, "all_reduce", (1,), dtype="Float", transfer=0.02),
    )
    return replace(SlowWorld(layouts, kinds), **fields)  # type: ignore[arg-type]


def play(world: SlowWorld) -> dict[int, FlightDump]:
    """The dump of each rank."""
    rng = np.random.default_rng(world.seed)
    size, kinds = world.size, world.kinds
    calls = world.steps * len(kinds)
    created, durations = np.zeros((size, calls)), np.zeros((size, calls))
    at = np.zeros(size)
    biased = np.array([(world.biased or {}).get(rank, 0.0) for rank in range(size)]) / 1e3
    for step in range(world.steps):
        at = at + world.compute * rng.lognormal(0.0, world.jitter / 10, size)
        for rank, late in (world.late or {}).items():
            at[rank] += late if isinstance(late, (int, float)) else float(late[step])
        for place, kind in enumerate(kinds):
            call = step * len(kinds) + place
            at = at + 0.02 * rng.lognormal(0.0, world.jitter * 3, size) + biased
            created[:, call] = at
            for number, group in enumerate(world.layouts[kind.layout][1]):
                rows = list(group)
                takes = kind.transfer * rng.lognormal(0.0, world.jitter)
                for (layout, index), factor in (world.grown or {}).items():
                    if layout == kind.layout and index in (None, number):
                        takes *= factor if isinstance(factor, (int, float)) else float(factor[step])
                end = at[rows].max() + takes
                durations[rows, call] = end - at[rows] + 0.0005 * rng.random(len(rows))
                at[rows] = end
    return {
        rank: _dump(world, rank, created[rank] + 1e3 * (world.clocks or {}).get(rank, 0.0), durations[rank])
        for rank in range(size)
        if rank not in world.absent
    }


def _dump(world: SlowWorld, rank: int, created: Floats, durations: Floats) -> FlightDump:
    mine = [
        (layout, next(group for group in groups if rank in group), name, number)
        for layout, (name, groups) in enumerate(world.layouts)
        for number, group in enumerate(groups)
        if rank in group
    ]
    index_of = {layout: index for index, (layout, _, _, _) in enumerate(mine)}
    groups = tuple(
        FlightGroup(f"{layout}-{number}", f"{name}{number}" if name != "default_pg" else name, members, index)
        for index, (layout, members, name, number) in enumerate(mine)
    )
    sizes = tuple(dict.fromkeys(shape for kind in world.kinds for shape in ((kind.sizes,), (kind.outs or kind.sizes,))))
    ops = tuple(dict.fromkeys(f"nccl:{kind.op}" for kind in world.kinds))
    dtypes = tuple(dict.fromkeys((kind.dtype,) for kind in world.kinds))
    rows = [
        [
            index_of[kind.layout],
            index_of[kind.layout],
            ops.index(f"nccl:{kind.op}"),
            sizes.index((kind.sizes,)),
            sizes.index((kind.outs or kind.sizes,)),
            dtypes.index((kind.dtype,)),
            dtypes.index((kind.dtype,)),
            0,
            600_000,
        ]
        for kind in world.kinds
    ]
    count = len(created)
    call = np.tile(np.arange(len(rows), dtype=np.int32), world.steps)
    group = np.array(rows)[call, 0]
    seq = np.zeros(count, dtype=np.int64)
    for index in range(len(groups)):
        seq[group == index] = np.arange(1, (group == index).sum() + 1)
    wall = ((START + created / 1e3) * 1e9).astype(np.int64)
    ends = ((START + (created + durations) / 1e3) * 1e9).astype(np.int64)
    columns = FlightColumns(
        record_id=np.arange(count),
        call=call,
        seq=seq,
        p2p_seq=np.zeros(count, dtype=np.int64),
        op_id=np.arange(count),
        created_ns=wall,
        started_ns=wall if world.timing else np.zeros(count, dtype=np.int64),
        completed_ns=ends,
        duration_ms=durations if world.timing else np.full(count, np.nan),
        state=np.full(count, State.COMPLETED, dtype=np.int8),
        retired=np.ones(count, dtype=bool),
        stack=np.full(count, -1, dtype=np.int32),
        calls=np.array(rows, dtype=np.int64),
        groups=groups,
        ops=ops,
        sizes=sizes,
        dtypes=dtypes,
        stacks=(),
    )
    last = {index: int((group == index).sum()) for index in range(len(groups))}
    status = {str(index): PgStatus(number, number, number) for index, number in last.items()}
    return FlightDump(f"flight/trace_{rank}", rank, None, "pickle", (2, 10), world.library, columns, status)


def context_of(dumps: Mapping[int, FlightDump] | SlowWorld, *more: object) -> Context:
    """The aligned context of these dumps; `more`: blobs of other evidence."""
    found = play(dumps) if isinstance(dumps, SlowWorld) else dumps
    other = gather(list(more))  # type: ignore[arg-type]
    return contexts.build(
        Evidence({**other.by_type, FlightDump: tuple(found.values())}, other.sources, other.problems), DEFAULTS
    )


def stepped(steps: int, parts: Sequence[tuple[float, float]]) -> Floats:
    """A value per step: parts of (share of the steps, value)."""
    found = np.concatenate([np.full(round(share * steps), value) for share, value in parts])
    return np.resize(found, steps)
