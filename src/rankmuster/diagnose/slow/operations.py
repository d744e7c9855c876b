"""One group's collectives by operation, size and type: distributions of transfer, wait and arrival, per rank too.

One duration mixes two things. The last to arrive waits for nobody, so the shortest duration over the members is the
transfer; what another member's takes beyond that is waiting. By how much a member came later than the first is how much
longer the first one's took. Ends differ between members by the skew of the algorithm's last step, some microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.signatures import Signature
from rankmuster.diagnose.slow import keys
from rankmuster.diagnose.slow.bandwidth import bus_gb_per_s, message_bytes
from rankmuster.diagnose.slow.change import splits, to_change
from rankmuster.diagnose.slow.lateness import Rounds
from rankmuster.diagnose.slow.limits import SlowLimits
from rankmuster.diagnose.slow.matrix import GroupMatrix
from rankmuster.diagnose.slow.spread import grid, quantiles
from rankmuster.model.flight import Flags, Floats, Ints
from rankmuster.model.slow import QUANTILES, CollectiveTable, Operation, RankTable, distribution


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """An operation with the rows of its ranks and, where asked for, its collectives."""

    operation: Operation
    ranks: RankTable
    collectives: CollectiveTable | None


@dataclass(frozen=True, slots=True)
class _Kind:
    """`signature`: of its first collective. `columns`: of the matrix."""

    signature: Signature
    various: bool
    columns: Ints


def of_group(
    matrix: GroupMatrix,
    rounds: Rounds,
    signatures: tuple[Signature, ...],
    symmetric: Flags,
    hosts: int | None,
    first_index: int,
    limits: SlowLimits,
    *,
    collectives: bool,
) -> Iterator[Measured]:
    """All operations of one group. `rounds`: the matrix's symmetric ones, as lateness measured them."""
    span = float(np.ptp(matrix.created)) if len(matrix.created) else 0.0
    waited = np.zeros(len(matrix.numbers))
    last = np.full(len(matrix.numbers), -1, dtype=np.int64)
    mask = symmetric[matrix.signature]
    waited[mask], last[mask] = rounds.waited, rounds.last
    for index, kind in enumerate(_kinds(matrix, signatures, limits), start=first_index):
        yield _measured(matrix, kind, waited, last, span, hosts, index, limits, collectives)


def _kinds(matrix: GroupMatrix, signatures: tuple[Signature, ...], limits: SlowLimits) -> list[_Kind]:
    """Collectives that every rank passed the same to, by what that was; the rest by operation alone."""
    uneven = ~matrix.alike
    kinds, firsts, counts = np.unique(matrix.signature[matrix.alike], return_index=True, return_counts=True)
    often = np.argsort(-counts, kind="stable")[: limits.most_sizes]
    kept = kinds[often][np.argsort(firsts[often], kind="stable")]
    found = []
    for kind in kept.tolist():
        found.append(_Kind(signatures[kind], False, np.flatnonzero((matrix.signature == kind) & ~uneven)))
    rest = np.flatnonzero(uneven | ~np.isin(matrix.signature, kept))
    by_name: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for kind in np.unique(matrix.signature[rest]).tolist():
        by_name.setdefault((signatures[kind].op, signatures[kind].in_dtypes), []).append(kind)
    for same in by_name.values():
        columns = rest[np.isin(matrix.signature[rest], same)]
        found.append(_Kind(signatures[same[0]], True, columns))
    return found


def _measured(
    matrix: GroupMatrix,
    kind: _Kind,
    waited: Floats,
    last: Ints,
    span: float,
    hosts: int | None,
    index: int,
    limits: SlowLimits,
    collectives: bool,
) -> Measured:
    columns, members = kind.columns, matrix.group.members
    every = len(columns) == len(matrix.numbers)
    durations = matrix.values if every else matrix.values[:, columns]
    symmetric = bool((last[columns] >= 0).all())
    count, rows = len(columns), len(matrix.ranks)
    nothing = np.full((rows, len(QUANTILES)), np.nan)
    size = None if kind.various else message_bytes(kind.signature)
    transfer = durations.min(axis=0)
    latest = durations.max(axis=0)
    lasts: Ints = np.zeros(rows, dtype=np.int64)
    waited_for: Floats = np.zeros(rows)
    wait = behind = nothing
    change = None
    if symmetric:
        lasts = np.bincount(last[columns], minlength=rows).astype(np.int64)
        weighed = np.bincount(last[columns], weights=waited[columns], minlength=rows)
        waited_for = np.asarray(weighed, dtype=np.float64)
        wait, behind = quantiles(durations - transfer), quantiles(latest - durations)
        found = splits(transfer, limits)
        if found and not kind.various:
            # Of several the one that changed most: a window seldom holds two causes.
            most = max(found, key=lambda one: abs(np.log(max(one.after, 1e-9) / max(one.before, 1e-9))))
            change = to_change(most, transfer, matrix.created[columns], matrix.numbers[columns])
    whole = quantiles(np.stack([transfer, latest - transfer]))
    operation = Operation(
        index=index,
        group=matrix.group.key,
        label=matrix.group.label,
        key=keys.key(matrix.group, hosts, kind.signature, various=kind.various),
        members=members,
        ranks=matrix.ranks,
        bytes=size,
        symmetric=symmetric,
        collectives=count,
        transfer=distribution(count, whole[0]) if symmetric else None,
        wait=distribution(count, whole[1]) if symmetric else None,
        grid=grid(transfer) if symmetric and count else None,
        wait_grid=grid(latest - transfer) if symmetric and count else None,
        bus_gb_per_s=bus_gb_per_s(kind.signature.op, size, len(members), float(whole[0, 1])) if symmetric else None,
        busy=float(transfer.sum()) / 1e3 / span if symmetric and span > 0 else 0.0,
        change=change,
    )
    table = RankTable(
        operation=np.full(rows, index, dtype=np.int64),
        rank=np.array(matrix.ranks, dtype=np.int64),
        count=np.full(rows, count, dtype=np.int64),
        duration=quantiles(durations),
        wait=wait,
        behind=behind,
        last=lasts,
        waited_s=waited_for,
    )
    single = None
    if collectives:
        numbers = np.array([*matrix.ranks, -1], dtype=np.int64)
        single = CollectiveTable(
            operation=np.full(count, index, dtype=np.int64),
            seq=matrix.numbers[columns],
            created=matrix.created[columns],
            transfer=transfer if symmetric else np.full(count, np.nan),
            wait=latest - transfer if symmetric else np.full(count, np.nan),
            last=numbers[last[columns]],
        )
    return Measured(operation, table, single)
