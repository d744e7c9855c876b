"""Every number that the analysis of slow collectives turns on, beside those of late arrival (`diagnose.thresholds`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlowLimits:
    """Defaults; where a simulation is named, `tests/diagnose/slow` runs it with a seed."""

    most_sizes: int = 24
    """Sizes told apart per group, the most frequent ones: a prefill makes one of every length, and a distribution of a
    handful says nothing. The rest is one operation of various sizes."""

    change_fewest: int = 80
    """Collectives of one kind without which no change is looked for: 20 blocks of 4."""

    change_block: int = 4
    """Fewest collectives of a block. What follows each other is alike (launches of one step), blocks are less so."""

    change_blocks: int = 128
    """Most blocks: with so many a change in the last twentieth still stands out, and blocks stay long."""

    change_coarse: int = 24
    """Blocks where a tail's single long waits are looked for, in their means: they come every few dozen collectives."""

    change_edge: float = 0.05
    """Part at either end of the window in which no change is placed: a start-up is none."""

    change_chance: float = 1e-3
    """False alarms per series on which nothing changes, as the approximation has it; the simulation on series with
    bursts, two modes and serial correlation stays below with `change_ratio`."""

    change_ratio: float = 1.5
    """Ratio of two sides from which a change is worth telling: a link or clock at half shows as two, load as less."""

    change_ms: float = 0.005
    """... and difference in ms: CUDA events tick in half a microsecond, and kernels of 20 us vary by a few."""

    first_part: float = 0.1
    """Part of the window that counts as its start when something is said to have begun before it."""

    most_changes: int = 3
    """Changes looked for in one series: slow from one time to another are two."""

    group_ratio: float = 1.5
    """Ratio of a group's median transfer to that of its equals from which it is slow: the two stages of
    `healthy-tp2pp2` lie within a tenth, and a link at half its width doubles it."""

    group_spreads: float = 5.0
    """... and in spreads (1.4826 x median absolute deviation) of the equals' medians, for kinds that scatter."""

    group_fewest: int = 3
    """Groups, itself included, without which none is odd: of two nobody can tell."""

    group_collectives: int = 20
    """Collectives of one kind in a group without which its median is not compared (as `late_rounds`)."""

    shared_share: float = 0.1
    """Share of wall time that a slower transfer must cost, of a group or since a time, to call the instance slow (as
    `tail_share`: a rate lower by a tenth is what an operator notices)."""

    skew_fewest: int = 20
    """Numbers in common without which ranks' enqueue times are not compared."""


DEFAULTS = SlowLimits()
