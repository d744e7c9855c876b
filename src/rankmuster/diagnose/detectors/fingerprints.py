"""torch's comparison of calls before they run: operation, shape, type and number of two ranks that do not fit.

Each message is about two ranks; over several the majority shows. Blind without TORCH_DISTRIBUTED_DEBUG=DETAIL.
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.mismatch import split
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.diagnose.log_rolls import op_name
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import CollectiveFingerprint
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.verdict import FirstDivergence

NAME = "call-fingerprints"


def detect(context: Context) -> list[Finding]:
    """One finding for the first call that did not fit, with everybody who was told to have made one."""
    prints = context.evidence.of(CollectiveFingerprint)
    if len(prints) < 2:
        return []
    first = [side for side in prints if (side.origin.source, side.pair) == (prints[0].origin.source, prints[0].pair)]
    seqs = {side.seq for side in first}
    sides = {side.rank: side for side in reversed(prints) if len(seqs) > 1 or side.seq in seqs}
    aspect, values = _differing(sides)
    if aspect is None:
        return []
    odd: tuple[int, ...] = ()
    majority: tuple[int, ...] = ()
    if len(sides) > 2:
        majority, odd = split(dict(values))
    told = "; ".join(f"{ranks_text([rank])} called {_shown(side)}" for rank, side in sorted(sides.items())[:8])
    everybody = tuple(sorted(sides))
    reference = sides[majority[0]] if majority else first[0]
    accusation = accuse(
        aspect,
        Confidence.CONFIRMED if odd else Confidence.LIKELY,
        culprits=odd,
        suspects=() if odd else everybody,
        victims=tuple(rank for rank in everybody if rank not in odd) if odd else (),
        why={rank: f"called {_shown(sides[rank])}, which does not fit the other's call" for rank in odd or everybody},
        scope=Scope.RANK if odd else Scope.GROUP,
        at=context.time(prints[0].origin.stamp),
        decisive=bool(odd),
        divergence=FirstDivergence(
            group="the group of this message",
            members=everybody,
            sequence=reference.seq,
            op=op_name(reference.op),
            missing=odd,
            entered=tuple(rank for rank in everybody if rank not in odd),
        ),
    )
    statement = f"torch compared the calls before they ran and they do not fit: {told}"
    return [
        Finding(
            NAME,
            Plane.FRAMEWORK_LOG,
            statement,
            tuple(dict.fromkeys(side.origin.reference for side in prints))[:6],
            accusation,
        )
    ]


def _shown(side: CollectiveFingerprint) -> str:
    shape = f" of shape [{side.shape}]" if side.shape is not None else ""
    return f"{side.op}{shape}" + (f" {side.dtype}" if side.dtype else "") + (f" as #{side.seq}" if side.seq else "")


def _differing(sides: dict[int, CollectiveFingerprint]) -> tuple[Subkind | None, dict[int, object]]:
    """What differs first in weight: the operation, then its number, its shape, its type."""
    aspects: tuple[tuple[Subkind, dict[int, object]], ...] = (
        (Subkind.OP_MISMATCH, {rank: side.op for rank, side in sides.items()}),
        (Subkind.OP_MISMATCH, {rank: side.seq for rank, side in sides.items()}),
        (Subkind.SIZE_MISMATCH, {rank: side.shape for rank, side in sides.items() if side.shape is not None}),
        (Subkind.DTYPE_MISMATCH, {rank: side.dtype for rank, side in sides.items() if side.dtype is not None}),
    )
    for subkind, values in aspects:
        if len(set(values.values())) > 1:
            return subkind, values
    return None, {}
