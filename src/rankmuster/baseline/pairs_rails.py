"""Rails beside each other: which of a node's GPUs with its NIC is weak, where all together would hide it.

Two nodes of eight 400 Gb/s NICs are bound by NVLink, not by the network: their NICs could carry 750 GB/s of bus
bandwidth and NVLink has 450, so that a NIC of half its speed does not show. One GPU per node shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rankmuster.baseline.pairs import TOLERANCE, PairResult, judged
from rankmuster.baseline.pairs_decode import Decoded, NodeStanding, decode


@dataclass(frozen=True, slots=True)
class RailFault:
    """`rails`: of the node that are bad. `whole`: all that were measured, so that it is the node rather than a NIC."""

    node: str
    rails: tuple[int, ...]
    whole: bool


def by_rail(
    nodes: Sequence[str],
    results: Sequence[PairResult],
    *,
    floor: float | None = None,
    tolerance: float = TOLERANCE,
    trusted: Collection[str] = (),
) -> Mapping[int | None, Decoded]:
    """Each rail decoded by itself: rails differ from each other in health (a NIC behind another switch)."""
    rails: dict[int | None, list[PairResult]] = {}
    for result in results:
        rails.setdefault(result.rail, []).append(result)
    ordered = sorted(rails, key=lambda rail: -1 if rail is None else rail)
    return {
        rail: decode(nodes, judged(rails[rail], floor=floor, tolerance=tolerance), trusted=trusted) for rail in ordered
    }


def faults(decoded: Mapping[int | None, Decoded]) -> tuple[RailFault, ...]:
    """Nodes with bad rails, by name."""
    bad: dict[str, list[int]] = {}
    measured: dict[str, int] = {}
    for rail, one in decoded.items():
        if rail is None:
            continue
        for verdict in one.nodes:
            measured[verdict.node] = measured.get(verdict.node, 0) + (verdict.standing is not NodeStanding.UNTESTED)
            if verdict.standing is NodeStanding.BAD:
                bad.setdefault(verdict.node, []).append(rail)
    return tuple(
        RailFault(node, tuple(sorted(rails)), whole=len(rails) == measured[node] > 1)
        for node, rails in sorted(bad.items())
    )
