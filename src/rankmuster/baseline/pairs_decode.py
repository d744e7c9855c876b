"""What measured pairs say of nodes and the paths between them, with the undecidable said."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from rankmuster.baseline.pairs import CONFIRMED, PROVEN_NEEDED, Judged, PairState, accusers, proven


class NodeStanding(str, Enum):
    """What pairs tell of a node. UNDECIDED: every slow pair of it has another explanation too."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDED = "undecided"
    UNTESTED = "untested"


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """`reason`: the pairs that say so, or what would decide it."""

    node: str
    standing: NodeStanding
    reason: str


@dataclass(frozen=True, slots=True)
class PathVerdict:
    """A path between two nodes that are good by themselves. `certain`: it was slow every time, and more than once."""

    first: str
    second: str
    certain: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """`notes`: what holds for all, e.g. that pairs were compared with each other only."""

    nodes: tuple[NodeVerdict, ...]
    paths: tuple[PathVerdict, ...]
    notes: tuple[str, ...]

    def of(self, standing: NodeStanding) -> tuple[str, ...]:
        """The nodes that stand so."""
        return tuple(one.node for one in self.nodes if one.standing is standing)

    @property
    def all_good(self) -> bool:
        """Whether every node is good, and every path between two."""
        return not self.paths and all(one.standing is NodeStanding.GOOD for one in self.nodes)


def decode(nodes: Sequence[str], results: Sequence[Judged], *, trusted: Collection[str] = ()) -> Decoded:
    """Of one rail. A node is bad when it was never fast, and not with two proven partners; where all faults are faults
    of nodes, no good node ever is. A slow path needs two slow measurements between proven nodes."""
    times: dict[frozenset[str], list[PairState]] = {}
    shown: dict[frozenset[str], list[str]] = {}
    for one in results:
        times.setdefault(one.result.pair, []).append(one.state)
        shown.setdefault(one.result.pair, []).append(_value(one))
    good = proven(results, trusted)
    verdicts = tuple(_node(node, nodes, times, shown, good, trusted) for node in nodes)
    paths = tuple(
        _path(tuple(sorted(pair)), states, shown[pair])
        for pair, states in times.items()
        if pair <= good and any(state is not PairState.FAST for state in states)
    )
    return Decoded(verdicts, paths, _notes(results, good))


def _node(
    node: str,
    nodes: Sequence[str],
    times: dict[frozenset[str], list[PairState]],
    shown: dict[frozenset[str], list[str]],
    good: frozenset[str],
    trusted: Collection[str],
) -> NodeVerdict:
    own = {pair: states for pair, states in times.items() if node in pair}
    if node in good:
        fast = [_other(node, pair) for pair, states in own.items() if PairState.FAST in states]
        reason = f"fast with {', '.join(fast)}" if fast else "known to be good from elsewhere"
        return NodeVerdict(node, NodeStanding.GOOD, reason)
    if not own:
        return NodeVerdict(node, NodeStanding.UNTESTED, "no pair with it was measured")
    pairs = "; ".join(f"{', '.join(shown[pair])} with {_other(node, pair)}" for pair in own)
    against = accusers(node, times, good)
    if len(against) >= PROVEN_NEEDED:
        return NodeVerdict(node, NodeStanding.BAD, f"{pairs}; {' and '.join(against)} are fast with others")
    return NodeVerdict(node, NodeStanding.UNDECIDED, f"{pairs}; {_open(node, nodes, times, good, against, trusted)}")


def _open(
    node: str,
    nodes: Sequence[str],
    times: dict[frozenset[str], list[PairState]],
    good: frozenset[str],
    against: list[str],
    trusted: Collection[str],
) -> str:
    """Why it cannot be told, and what would tell."""
    if len(nodes) == 2 and not trusted:
        return "of two nodes it cannot be told which is at fault, or the path between them: measure each with a third"
    if len(against) == 1:
        which = f"it may be the node or its path to {against[0]}"
        unmet = [other for other in good if other != node and frozenset((node, other)) not in times]
        return f"{which}: measure it with {min(unmet) if unmet else 'another node that is good'}"
    if not good:
        return "no pair was fast, so that nobody is proven: measure it with a node that is known to be good"
    return f"its partners are in doubt themselves: measure it with {min(good)}"


def _path(pair: tuple[str, ...], states: list[PairState], values: list[str]) -> PathVerdict:
    bad = sum(state is not PairState.FAST for state in states)
    measured = ", ".join(values)
    first, second = pair
    if bad < len(states):
        reason = f"{measured}: sometimes slow; both nodes are fast with others"
        return PathVerdict(first, second, False, reason)
    if bad >= CONFIRMED:
        reason = f"{measured}; both nodes are fast with others, so it is the path between them"
        return PathVerdict(first, second, True, reason)
    return PathVerdict(first, second, False, f"{measured}, once; both nodes are fast with others: measure it again")


def _notes(results: Sequence[Judged], good: frozenset[str]) -> tuple[str, ...]:
    notes = []
    compared = [one for one in results if one.reference is not None]
    if compared and not compared[0].floor:
        notes.append(
            f"pairs were compared with each other (upper quartile {compared[0].reference:.4g} GB/s): what slows all of "
            "them alike is not seen without a floor"
        )
    if results and not good:
        notes.append("no pair was fast: all nodes but one are bad, or something that they share, or the floor is wrong")
    return tuple(notes)


def _other(node: str, pair: frozenset[str]) -> str:
    return next(iter(pair - {node}))


def _value(one: Judged) -> str:
    if one.result.busbw is None:
        return f"failed ({one.result.reason})" if one.result.reason else "failed"
    return f"{one.result.busbw:.4g} GB/s"
