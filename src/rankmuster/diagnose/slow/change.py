"""Since when: lasting changes of a series, by the largest of all two-sample rank statistics over its split points.

The series is cut into blocks of collectives that follow each other; the blocks' medians (or means) are ranked, and the
Mann-Whitney statistic of "before" against "after" is taken at every split, standardised, as large as it gets. Its tail
under no change is that of Miller and Siegmund (Maximally selected chi square statistics, Biometrics 38, 1982), with the
variance widened by the blocks' serial correlation about the levels ((1 + r) / (1 - r), as for any mean of an
autoregressive series). Where no split stands out, a part is looked for that differs from what lies before and behind
it, its chance bounded by the number of parts (Bonferroni; the segments are those of Olshen and others, Biostatistics 5,
2004). Ranks make single huge waits count as one block's worth. Blind to what comes and goes faster than a block, and
within `change_edge` of either end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rankmuster.diagnose.slow.limits import SlowLimits
from rankmuster.model.flight import Floats, Ints
from rankmuster.model.slow import Change

_MOST_CORRELATION = 0.9
"""Serial correlation beyond which it is not believed: the two levels themselves leave some where the split is off."""

_NEAR = 3
"""Blocks before and after the found one among whose values the split is placed: the best block is off by one or two."""


@dataclass(frozen=True, slots=True)
class Split:
    """`position`: of the first value after the change."""

    position: int
    before: float
    after: float
    p_value: float


def splits(values: Floats, limits: SlowLimits, *, means: bool = False) -> list[Split]:
    """All lasting changes, in order; `values` in order of time, shape (n,). `means`: blocks and levels by means, for
    series that are zero mostly."""
    found: list[Split] = []
    parts = [(0, len(values))]
    while parts and len(found) < limits.most_changes:
        start, end = parts.pop(0)
        here = [
            Split(start + one.position, one.before, one.after, one.p_value)
            for one in strongest(values[start:end], limits, means=means)
        ]
        found += here
        if here:
            edges = [start, *(one.position for one in here), end]
            parts += list(pairwise(edges))
    found.sort(key=lambda one: one.position)
    return found[: limits.most_changes]


def strongest(values: Floats, limits: SlowLimits, *, means: bool = False) -> list[Split]:
    """The change that stands out most, or the two ends of a part that does; none where chance would do as much, or it
    is too small to matter. Of means longer blocks are tried too, each of which holds some of what happens seldom."""
    for most in (limits.change_blocks, limits.change_coarse) if means else (limits.change_blocks,):
        found = _in_blocks(values, limits, most, means)
        if found:
            return found
    return []


def _in_blocks(values: Floats, limits: SlowLimits, most: int, means: bool) -> list[Split]:
    count = len(values)
    if count < limits.change_fewest:
        return []
    blocks = min(most, count // limits.change_block)
    edges = np.linspace(0, count, blocks + 1).astype(np.int64)
    levels = _levels(values, edges, means)
    if not _differ(float(levels.min()), float(levels.max()), limits):
        return []  # the level of a part lies between those of its blocks
    ranks = midranks(levels)
    spread = float(np.mean((ranks - (blocks + 1) / 2) ** 2))
    if spread <= 0:
        return []
    sums = np.concatenate([[0.0], np.cumsum(ranks - (blocks + 1) / 2)])
    edge = max(1, math.ceil(limits.change_edge * blocks))
    for at, chance in (_one(ranks, sums, spread, edge), _part(ranks, sums, spread, edge)):
        if at and chance <= limits.change_chance:
            found = _worth(values, [_refined(values, edges, block, means) for block in at], chance, limits, means)
            if found:
                return found
    return []


def _one(ranks: Floats, sums: Floats, spread: float, edge: int) -> tuple[list[int], float]:
    """(the split into two, its chance): the largest of all two-sample statistics."""
    blocks = len(ranks)
    positions = np.arange(edge, blocks - edge + 1)
    # A sum of `position` of the ranks, drawn without replacement, has this variance; `spread` is less where values tie.
    scores = np.abs(sums[positions]) / np.sqrt(positions * (blocks - positions) / (blocks - 1) * spread)
    if not len(scores):
        return [], 1.0
    best = int(positions[int(scores.argmax())])
    return [best], tail(float(scores.max()) / math.sqrt(_inflation(ranks, [best])), edge / blocks)


def _part(ranks: Floats, sums: Floats, spread: float, edge: int) -> tuple[list[int], float]:
    """(the ends of a part that differs from the rest, its chance), bounded by the number of parts there are."""
    blocks = len(ranks)
    places = np.arange(edge, blocks - edge + 1)
    starts, ends = np.meshgrid(places, places, indexing="ij")
    wide = (ends - starts >= edge).nonzero()
    starts, ends = starts[wide], ends[wide]
    if not len(starts):
        return [], 1.0
    size = ends - starts
    scores = np.abs(sums[ends] - sums[starts]) / np.sqrt(size * (blocks - size) / (blocks - 1) * spread)
    best = int(scores.argmax())
    at = [int(starts[best]), int(ends[best])]
    score = float(scores[best]) / math.sqrt(_inflation(ranks, at))
    return at, min(1.0, len(starts) * math.erfc(score / math.sqrt(2)))


def _worth(values: Floats, at: list[int], chance: float, limits: SlowLimits, means: bool) -> list[Split]:
    """The changes between the parts that end at these positions, if they are large enough to tell of."""
    middle = np.mean if means else np.median
    if any(after <= before for before, after in pairwise([0, *at, len(values)])):
        return []
    levels = [float(middle(values[low:high])) for low, high in pairwise([0, *at, len(values)])]
    found = []
    for position, (before, after) in zip(at, pairwise(levels), strict=True):
        if not _differ(min(before, after), max(before, after), limits):
            return []
        found.append(Split(position, before, after, chance))
    return found


def to_change(split: Split, values: Floats, created: Floats, numbers: Ints) -> Change:
    """`values` in ms, `created`, `numbers`: of the series in which it was found."""
    seconds = float(created[-1] - created[split.position])
    extra = float(np.maximum(values[split.position :] - split.before, 0.0).sum()) / 1e3
    return Change(
        at=float(created[split.position]),
        seq=int(numbers[split.position]),
        before_ms=split.before,
        after_ms=split.after,
        p_value=split.p_value,
        share=extra / seconds if seconds > 0 else 0.0,
    )


def tail(score: float, edge: float) -> float:
    """Probability that the largest standardised statistic over all splits in [edge, 1 - edge] reaches `score`."""
    if score < 1.5:  # the approximation holds for large ones
        return 1.0
    density = math.exp(-score * score / 2) / math.sqrt(2 * math.pi)
    width = 2 * math.log((1 - edge) / edge)
    return min(1.0, density * ((score - 1 / score) * width + 4 / score))


def _differ(low: float, high: float, limits: SlowLimits) -> bool:
    """Whether a change from one level to the other is worth telling."""
    return high >= limits.change_ratio * low and high - low >= limits.change_ms


def midranks(values: Floats) -> Floats:
    """Ranks from 1, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    shared: Floats = (ends - (counts - 1) / 2)[inverse.reshape(-1)]
    return shared


def _levels(values: Floats, edges: Ints, means: bool) -> Floats:
    if means:
        sums: Floats = np.add.reduceat(values, edges[:-1])
        return sums / np.diff(edges)
    size = int(np.diff(edges).min())
    # Blocks of one length, so that all medians are taken at once; the odd value at a block's end is passed over.
    medians: Floats = np.median(values[edges[:-1, None] + np.arange(size)], axis=1)
    return medians


def _inflation(ranks: Floats, at: list[int]) -> float:
    """By how much the blocks' serial correlation about the levels of these parts widens the variance, at least 1."""
    rest = np.concatenate([part - part.mean() for part in np.split(ranks, at)])
    power = float((rest * rest).sum())
    if power <= 0:
        return 1.0
    correlation = min(max(float((rest[1:] * rest[:-1]).sum()) / power, 0.0), _MOST_CORRELATION)
    return (1 + correlation) / (1 - correlation)


def _refined(values: Floats, edges: Ints, best: int, means: bool) -> int:
    """The split among the values of the blocks about the found one: where their sum, less its share, turns."""
    low, high = int(edges[max(0, best - _NEAR)]), int(edges[min(best + _NEAR, len(edges) - 1)])
    near = values[low:high] if means else midranks(values[low:high])
    turned = np.abs(np.cumsum(near - near.mean()))[:-1]
    return low + 1 + int(turned.argmax()) if len(turned) else int(edges[best])
