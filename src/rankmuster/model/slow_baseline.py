"""What an instance's collectives took when it was well, and how they compare now. Times in ms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.model.slow import OperationKey, Surroundings

SCHEMA = "rankmuster.flight-baseline/1"


@dataclass(frozen=True, slots=True)
class Sample:
    """One window's distribution over all groups of a kind. `grid`: quantiles at `model.slow.GRID`.

    `lowest_median`, `highest_median`: of its groups, by themselves.
    """

    n: int
    grid: tuple[float, ...]
    lowest_median: float
    highest_median: float


@dataclass(frozen=True, slots=True)
class History:
    """One kind of collective over the saved windows, oldest first. `wait`: the longest beyond each transfer."""

    key: OperationKey
    transfer: tuple[Sample, ...]
    wait: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class SavedWindow:
    """Unix seconds. `waited`: rank -> share of the window that others waited for it, where it is worth keeping."""

    start: float
    end: float
    waited: dict[str, float]


@dataclass(frozen=True, slots=True)
class Baseline:
    """Schema `rankmuster.flight-baseline/1`. `grid`: the probabilities of all samples.

    `disturbed`: its windows may be slowed by dumps with stacks: they compare with such alone, and provisionally.
    """

    schema: str
    disturbed: bool
    surroundings: Surroundings
    grid: tuple[float, ...]
    windows: tuple[SavedWindow, ...]
    operations: tuple[History, ...]


class Measure(str, Enum):
    """What is compared."""

    TRANSFER_P50 = "transfer p50"
    TRANSFER_P99 = "transfer p99"
    WAIT_P50 = "wait p50"
    WAIT_P99 = "wait p99"


class Outcome(str, Enum):
    """How it compares."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One quantile now against the saved windows.

    `low`, `high`: the ratio's interval (see `diagnose.slow.baseline_compare`). `provisional`: too little history for
    the outcome to be more than a lead.
    """

    measure: Measure
    now_ms: float
    before_ms: float
    low: float
    high: float
    outcome: Outcome
    provisional: bool

    @property
    def ratio(self) -> float:
        """How many times as long; infinite where it took no time before."""
        return self.now_ms / self.before_ms if self.before_ms > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Compared:
    """One kind of collective. `n`: now. `groups`: those beyond what any took before, (label, ratio of its median).

    `share`: of wall time that the slower transfer takes on top, of the slowest group.
    """

    key: OperationKey
    n: int
    windows: int
    ratios: tuple[Ratio, ...]
    groups: tuple[tuple[str, float], ...]
    share: float

    def of(self, measure: Measure) -> Ratio | None:
        """The ratio of one measure, None where it could not be taken."""
        return next((one for one in self.ratios if one.measure is measure), None)


@dataclass(frozen=True, slots=True)
class ComparedRank:
    """A rank that is waited for longer than before. `now`, `before`: shares of wall time, `before` at most."""

    rank: int
    now: float
    before: float
    provisional: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """`differs`: why nothing is compared; empty where it is. `taken_as_same`: what one side does not know.

    `new`: kinds without history; `gone`: kinds with history that did not run now.
    """

    differs: tuple[str, ...]
    taken_as_same: tuple[str, ...]
    windows: int
    provisional: bool
    compared: tuple[Compared, ...] = ()
    ranks: tuple[ComparedRank, ...] = ()
    new: tuple[OperationKey, ...] = ()
    gone: tuple[OperationKey, ...] = ()

    @property
    def slower(self) -> tuple[Compared, ...]:
        """Kinds whose transfers take longer than before."""
        measures = (Measure.TRANSFER_P50, Measure.TRANSFER_P99)
        return tuple(
            one
            for one in self.compared
            if any(ratio.outcome is Outcome.SLOWER and ratio.measure in measures for ratio in one.ratios)
        )
