"""What measured pairs say of nodes and the paths between them, with the undecidable said."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from rankmuster.baseline.pairs import (
    CONFIRMED,
    PROVEN_NEEDED,
    Judged,
    PairResult,
    PairState,
    accusers,
    level_known,
    proven,
)
from rankmuster.baseline.pairs_level import Pair, most_bad
from rankmuster.model.benchmark import RunState


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
class PairEnd:
    """A pair whose benchmark hung or had wrong values, which fails whatever came after. `reason`: how it ended, and
    whether the other pairs tell which of the two nodes it was."""

    result: PairResult
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """`ends`: pairs that did not end as a benchmark must. `open`: why nodes that are all alike may still be bad, empty
    where that is excluded. `notes`: what holds for all, e.g. that pairs were compared with each other only."""

    nodes: tuple[NodeVerdict, ...]
    paths: tuple[PathVerdict, ...]
    notes: tuple[str, ...]
    ends: tuple[PairEnd, ...] = ()
    open: str = ""

    def of(self, standing: NodeStanding) -> tuple[str, ...]:
        """The nodes that stand so."""
        return tuple(one.node for one in self.nodes if one.standing is standing)

    @property
    def all_good(self) -> bool:
        """Whether every node is good, and every path between two, and no other reading is left."""
        told = not self.paths and not self.ends and not self.open
        return told and all(one.standing is NodeStanding.GOOD for one in self.nodes)

    @property
    def bad(self) -> bool:
        """Whether a node or a path is bad, or a pair hung or had wrong values."""
        bad = any(one.standing is NodeStanding.BAD for one in self.nodes)
        return bad or bool(self.ends) or any(path.certain for path in self.paths)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """`times`: states of each pair's measurements. `relative`: pairs that are slow beside others alone. `outnumbered`:
    the fast nodes are no majority, so that nobody is bad for being slower than they."""

    nodes: Sequence[str]
    times: dict[Pair, list[PairState]]
    shown: dict[Pair, list[str]]
    relative: frozenset[Pair]
    good: frozenset[str]
    trusted: Collection[str]
    outnumbered: bool


def decode(nodes: Sequence[str], results: Sequence[Judged], *, trusted: Collection[str] = ()) -> Decoded:
    """Of one rail. A node is bad when it was never fast, and not with two proven partners; where all faults are faults
    of nodes, no good node ever is. Slow beside other pairs alone convicts only where most nodes are fast: else it is
    the fast ones that may have something of their own. A slow path needs two slow measurements between proven nodes."""
    evidence = _evidence(nodes, results, trusted)
    verdicts = tuple(_node(node, evidence) for node in nodes)
    between = {pair: states for pair, states in evidence.times.items() if pair <= evidence.good}
    slow = {pair: states for pair, states in between.items() if any(one is not PairState.FAST for one in states)}
    rule = 2 * len(slow) < len(between)
    paths = tuple(
        _path(tuple(sorted(pair)), states, evidence.shown[pair], rule or pair not in evidence.relative)
        for pair, states in slow.items()
    )
    bad = {one.node for one in verdicts if one.standing is NodeStanding.BAD}
    ends = tuple(
        PairEnd(one.result, _ended(one.result, bad))
        for one in results
        if one.result.ended in (RunState.HUNG, RunState.WRONG)
    )
    open_ = "" if not results or level_known(nodes, results, trusted) else _alike(nodes, trusted)
    return Decoded(verdicts, paths, _notes(results, evidence), ends, open_)


def _evidence(nodes: Sequence[str], results: Sequence[Judged], trusted: Collection[str]) -> _Evidence:
    times: dict[Pair, list[PairState]] = {}
    shown: dict[Pair, list[str]] = {}
    for one in results:
        times.setdefault(one.result.pair, []).append(one.state)
        shown.setdefault(one.result.pair, []).append(_value(one))
    good = proven(results, trusted)
    tested = {node for pair in times for node in pair}
    relative = frozenset(one.result.pair for one in results if one.state is PairState.SLOW and not one.absolute)
    outnumbered = not trusted and 2 * len(good) <= len(tested)
    return _Evidence(nodes, times, shown, relative, good, trusted, outnumbered)


def _node(node: str, evidence: _Evidence) -> NodeVerdict:
    times, shown, good = evidence.times, evidence.shown, evidence.good
    own = {pair: states for pair, states in times.items() if node in pair}
    if node in good:
        fast = [_other(node, pair) for pair, states in own.items() if PairState.FAST in states]
        reason = f"fast with {', '.join(fast)}" if fast else "known to be good from elsewhere"
        return NodeVerdict(node, NodeStanding.GOOD, reason)
    if not own:
        return NodeVerdict(node, NodeStanding.UNTESTED, "no pair with it was measured")
    pairs = "; ".join(f"{', '.join(shown[pair])} with {_other(node, pair)}" for pair in own)
    against = accusers(node, times, good)
    by_themselves = [other for other in against if frozenset((node, other)) not in evidence.relative]
    if len(against if not evidence.outnumbered else by_themselves) >= PROVEN_NEEDED:
        return NodeVerdict(node, NodeStanding.BAD, f"{pairs}; {' and '.join(against)} are fast with others")
    return NodeVerdict(node, NodeStanding.UNDECIDED, f"{pairs}; {_open(node, evidence, against)}")


def _open(node: str, evidence: _Evidence, against: list[str]) -> str:
    """Why it cannot be told, and what would tell."""
    nodes, times, good, trusted = evidence.nodes, evidence.times, evidence.good, evidence.trusted
    if len(against) >= PROVEN_NEEDED:
        return (
            f"only {len(good)} nodes are faster, no more than half, so that it cannot be told which speed is the "
            "healthy one: give --floor, or --trusted nodes"
        )
    if len(nodes) == 2 and not trusted:
        return "of two nodes it cannot be told which is at fault, or the path between them: measure each with a third"
    if len(against) == 1:
        which = f"it may be the node or its path to {against[0]}"
        unmet = [other for other in good if other != node and frozenset((node, other)) not in times]
        return f"{which}: measure it with {min(unmet) if unmet else 'another node that is good'}"
    if not good:
        return "no pair was fast, so that nobody is proven: measure it with a node that is known to be good"
    return f"its partners are in doubt themselves: measure it with {min(good)}"


def _path(pair: tuple[str, ...], states: list[PairState], values: list[str], rule: bool) -> PathVerdict:
    """`rule`: paths like it are fast as a rule, or it is bad by itself."""
    bad = sum(state is not PairState.FAST for state in states)
    measured = ", ".join(values)
    first, second = pair
    if bad < len(states):
        reason = f"{measured}: sometimes slow; both nodes are fast with others"
        return PathVerdict(first, second, False, reason)
    if not rule:
        reason = f"{measured}; as many paths between good nodes are slow as fast: it may be how they are wired"
        return PathVerdict(first, second, False, reason)
    if bad >= CONFIRMED:
        reason = f"{measured}; both nodes are fast with others, so it is the path between them"
        return PathVerdict(first, second, True, reason)
    return PathVerdict(first, second, False, f"{measured}, once; both nodes are fast with others: measure it again")


def _ended(result: PairResult, bad: Collection[str]) -> str:
    """That a pair alone tells nobody; `bad`: whom the other pairs tell."""
    told = sorted(result.pair & set(bad))
    whose = f"by the other pairs it is {' and '.join(told)}" if told else "that does not tell which of the two nodes"
    return f"{result.reason or result.ended.value}; {whose}"


def _alike(nodes: Sequence[str], trusted: Collection[str]) -> str:
    bad = min(most_bad(len(nodes)), len(nodes) - 1)
    more = " two" if not trusted else " two or more"
    return (
        f"{bad} node(s) that are slow alike could hide in these pairs, one in each fast one: give --floor, or{more} "
        "--trusted nodes"
    )


def _notes(results: Sequence[Judged], evidence: _Evidence) -> tuple[str, ...]:
    notes = []
    compared = [one for one in results if one.reference is not None]
    if compared and compared[0].floor is None:
        notes.append(
            f"pairs were compared with each other (the fastest, {compared[0].reference:.4g} GB/s): what slows all of "
            "them alike is not seen without a floor"
        )
    elif any(one.state is PairState.SLOW and not one.absolute for one in compared):
        notes.append(
            f"some pairs reach the floor and are clearly slower than the fastest ({compared[0].reference:.4g} GB/s)"
        )
    if results and not evidence.good:
        notes.append("no pair was fast: all nodes but one are bad, or something that they share, or the floor is wrong")
    return tuple(notes)


def _other(node: str, pair: frozenset[str]) -> str:
    return next(iter(pair - {node}))


def _value(one: Judged) -> str:
    if one.result.busbw is None:
        return f"failed ({one.result.reason})" if one.result.reason else "failed"
    return f"{one.result.busbw:.4g} GB/s"
