"""Finding slow nodes by measuring pairs: values, how a pair is judged, and which pairs to measure next.

A pair that is fast proves both of its nodes and the path between them. A slow pair accuses three: either node, and the
path. So nodes are measured in disjoint pairs, all at once, and whoever was in a slow pair is paired again with nodes
that a fast pair has proven, until one of the three is left or no pair is left to ask. Nobody is convicted by a partner
that is itself in doubt. Pure: what is measured, and how, is the caller's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from rankmuster.baseline.pairs_level import Pair, hidden, most_bad, reference_of, widening
from rankmuster.model.benchmark import RunState

TOLERANCE = 0.10
"""A pair is slow this share under the reference: at plateau sizes health spreads by 1 to 2 % (measured on H200s,
docs/measured.md), and the losses that matter (a link of eight, half of a NIC) are 12 % and more."""

PROVEN_NEEDED = 2
"""Slow pairs with so many different proven partners convict a node: one alone may be the path between the two."""

CONFIRMED = 2
"""A path between two proven nodes is convicted when it was slow so many times and never fast."""


class PairState(str, Enum):
    """How a pair compares with the others, or with the floor."""

    FAST = "fast"
    SLOW = "slow"
    FAILED = "failed"  # hung, wrong values, or ended with an error: evidence against both


@dataclass(frozen=True, slots=True)
class PairResult:
    """One measurement of two nodes. `busbw`: GB/s at the profile's largest sizes, None where there is none (a hang, an
    error: `reason` says which). `rail`: number of the GPU, None for all GPUs together."""

    first: str
    second: str
    busbw: float | None
    reason: str = ""
    rail: int | None = None

    @property
    def pair(self) -> Pair:
        """Both nodes: who was named first says nothing."""
        return frozenset((self.first, self.second))

    @property
    def ended(self) -> RunState:
        """How it ended, by the first word of the reason; ERROR where that is none of the states."""
        if self.busbw is not None:
            return RunState.COMPLETE
        word = self.reason.partition(":")[0].strip().lower()
        return next((state for state in RunState if state.value == word), RunState.ERROR)


@dataclass(frozen=True, slots=True)
class Judged:
    """`reference`: GB/s of the fastest pairs, None where no pair had a value. `floor`: GB/s, None where none was
    given."""

    result: PairResult
    state: PairState
    reference: float | None
    floor: float | None

    @property
    def absolute(self) -> bool:
        """Whether it is bad by itself (no value, or below the floor), and not beside other pairs alone."""
        if self.result.busbw is None:
            return True
        return self.floor is not None and self.result.busbw < self.floor


def judged(
    results: Sequence[PairResult], *, floor: float | None = None, tolerance: float = TOLERANCE
) -> tuple[Judged, ...]:
    """Fast or slow, of results of one rail. `floor`: GB/s that a pair must reach, from a history or the hardware.
    With and without it a pair is also slow when it is more than the tolerance under the fastest pairs
    (`pairs_level.reference_of`): a floor says what is too little anywhere, not what these nodes can do."""
    reference = reference_of([result.busbw for result in results if result.busbw is not None], tolerance)
    limit = max(floor or 0.0, 0.0 if reference is None else reference * (1 - tolerance))
    found = []
    for result in results:
        if result.busbw is None:
            state = PairState.FAILED
        else:
            state = PairState.FAST if result.busbw >= limit else PairState.SLOW
        found.append(Judged(result, state, reference, floor))
    return tuple(found)


def proven(results: Sequence[Judged], trusted: Collection[str] = ()) -> frozenset[str]:
    """Nodes of fast pairs, and those that are known to be good from elsewhere."""
    fast = {node for one in results if one.state is PairState.FAST for node in one.result.pair}
    return frozenset(fast | set(trusted))


def fast_pairs(results: Sequence[Judged]) -> frozenset[Pair]:
    """Pairs that were fast at least once."""
    return frozenset(one.result.pair for one in results if one.state is PairState.FAST)


def level_known(nodes: Sequence[str], results: Sequence[Judged], trusted: Collection[str] = ()) -> bool:
    """Whether the fastest pairs are known to be healthy ones: by a floor that they reach, as a pair of two nodes known
    to be good, or because more nodes than are reckoned with would have to be bad for each of them to have a bad one."""
    fast = fast_pairs(results)
    if any(one.floor is not None for one in results) or any(pair <= set(trusted) for pair in fast):
        return True
    good = proven(results, trusted)
    times = _times(results)
    bad = sum(_settled(node, times, good) for node in nodes if node not in good)
    return bad + hidden(fast, nodes) > most_bad(len(nodes))


def tournament(nodes: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Rounds of disjoint pairs in which every two nodes meet once (circle method): n - 1 rounds, n for an odd number,
    of which one sits out in each."""
    seats: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        pairs = zip(seats[:half], reversed(seats[half:]), strict=True)
        rounds.append(tuple((one, other) for one, other in pairs if one is not None and other is not None))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return tuple(rounds)


def next_round(
    nodes: Sequence[str], results: Sequence[Judged], *, trusted: Collection[str] = (), rounds: int = 1
) -> tuple[tuple[str, str], ...]:
    """Disjoint pairs to measure now, in the order of `nodes`; empty when no further pair could tell more.

    `rounds`: of the tournament that are played in any case: 1 finds nodes; n - 1 measures every path once. Then only
    nodes in doubt are paired: with proven ones, which tell most, or with each other; and a slow path between two proven
    nodes is measured again. Last, where nothing says that the fastest pairs are healthy, a few more of the fast nodes
    meet each other, so that bad ones cannot hide as the partners of all (`level_known`).
    """
    times = _times(results)
    for played in tournament(nodes)[:rounds]:
        missing = tuple(pair for pair in played if frozenset(pair) not in times)
        if missing:
            return missing
    good = proven(results, trusted)
    free = dict.fromkeys(nodes)
    chosen: list[tuple[str, str]] = []

    def take(one: str, other: str) -> None:
        chosen.append((one, other))
        del free[one], free[other]

    for node in nodes:
        if node in good or node not in free or _settled(node, times, good):
            continue
        partner = _partner(node, [other for other in free if other != node], times, good)
        if partner is not None:
            take(node, partner)
    for pair, states in times.items():
        again = PairState.FAST not in states and len(states) < CONFIRMED
        if again and pair <= good and all(node in free for node in pair):
            one, other = sorted(pair, key=list(nodes).index)
            take(one, other)
    if not chosen and not level_known(nodes, results, trusted):
        known = tuple(node for node in nodes if node in trusted)
        return widening((), times, known)[:1] or widening(fast_pairs(results), times, [n for n in nodes if n in good])
    return tuple(chosen)


def _times(results: Sequence[Judged]) -> dict[Pair, list[PairState]]:
    times: dict[Pair, list[PairState]] = {}
    for result in results:
        times.setdefault(result.result.pair, []).append(result.state)
    return times


def accusers(node: str, times: dict[Pair, list[PairState]], good: Collection[str]) -> list[str]:
    """Proven nodes that the node was never fast with."""
    found = []
    for pair, states in times.items():
        if node in pair and PairState.FAST not in states:
            found += [other for other in pair if other != node and other in good]
    return found


def _settled(node: str, times: dict[Pair, list[PairState]], good: Collection[str]) -> bool:
    return len(accusers(node, times, good)) >= PROVEN_NEEDED


def _partner(node: str, free: Sequence[str], times: dict[Pair, list[PairState]], good: Collection[str]) -> str | None:
    """A proven node that it has not met; none in sight, another in doubt that it has not met."""
    unmet = [other for other in free if frozenset((node, other)) not in times]
    return next((other for other in unmet if other in good), None) or next(
        (other for other in unmet if not good or not _could_be_proven(node, times, good)), None
    )


def _could_be_proven(node: str, times: dict[Pair, list[PairState]], good: Collection[str]) -> bool:
    """Whether a proven node that it has not met exists at all, though it may be taken in this round."""
    return any(other != node and frozenset((node, other)) not in times for other in good)
