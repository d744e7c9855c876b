"""How a node's results stand in the distribution of its own kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.model.benchmark import Cell, Operation


class Regime(str, Enum):
    """Sizes that one mechanism rules: each has its own statistics (facts measured on four H200s, docs/measured.md)."""

    LATENCY = "latency"  # launch and hop latency, two-moded in health
    TRANSITION = "transition"  # algorithm and protocol switch
    PLATEAU = "plateau"  # the links' bandwidth


class Standing(str, Enum):
    """Where a node stands beside what it is compared with."""

    WITHIN = "within"
    BORDERLINE = "borderline"  # between the two thresholds: to be measured again in a fresh process
    BELOW = "below"
    TOO_LITTLE = "too_little"  # history does not suffice; a floor was used, or nothing could be said
    ABOVE = "above"  # faster than the class ever was: not a fault of the node, but not the same thing measured either


@dataclass(frozen=True, slots=True)
class CellJudgement:
    """One size. Values are busbw in GB/s (time in microseconds in the latency regime); `unit` says which.

    `center`: the class's median, of the nearest mode where there are two; `limit`: the refusal threshold, None where
    this size alone refuses nobody.
    """

    cell: Cell
    unit: str
    value: float
    center: float | None
    limit: float | None
    ratio: float | None  # value / center, below 1 is worse whatever the unit
    samples: int


@dataclass(frozen=True, slots=True)
class RegimeJudgement:
    """One operation and regime. `statistic` and thresholds are relative to the class (1.0 is its median).

    `method`: how it was judged, in words with its parameters; `false_alarm`: the rate at which healthy nodes are
    refused by it, as simulated (docs/measured.md), None for floors. `floor`: the source of the floor that was used.
    `can_refuse`: latency never refuses alone.
    """

    operation: Operation
    regime: Regime
    graph: bool
    in_place: bool
    standing: Standing
    statistic: float | None
    refuse_below: float | None
    retest_below: float | None
    samples: int
    nodes: int
    method: str
    false_alarm: float | None
    floor: str | None
    can_refuse: bool
    reason: str
    cells: tuple[CellJudgement, ...]
