"""How long an instance's collectives take, who comes late to them, and since when. Times in ms unless a name says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from rankmuster.model.flight import Floats, Ints

QUANTILES = (0.0, 0.5, 0.9, 0.99, 0.999, 1.0)
"""Columns of the arrays of distributions: min, p50, p90, p99, p99.9, max."""

FEWEST_FOR = (1, 1, 10, 100, 1000, 1)
"""Values without which a quantile says no more than the largest value does: one beyond it must be expected."""

GRID = (
    *(0.0, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.42, 0.44, 0.46, 0.48, 0.5),
    *(0.52, 0.54, 0.56, 0.58, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.965, 0.975, 0.98),
    *(0.985, 0.99, 0.9925, 0.995, 0.9975, 0.999, 0.9995, 1.0),
)
"""Probabilities at which a distribution is kept for comparing: dense where medians and p99 have their bounds."""


class Timing(str, Enum):
    """What the times of a report are."""

    EVENTS = "events"  # start and end on the GPU (TORCH_NCCL_ENABLE_TIMING)
    HOST = "host"  # when hosts enqueued: says who comes late to launch, nothing of how long anything took
    NONE = "none"


class Pattern(str, Enum):
    """What waiting for one rank of a group amounts to."""

    PERSISTENT = "persistent"
    TAIL = "tail"
    VICTIM = "victim"  # it comes late from another group, in which it waits itself
    SEVERAL = "several"  # no single rank is late
    ORDINARY = "ordinary"  # within what healthy jobs show
    TOO_LITTLE = "too little"  # too few collectives, or too short a window, to judge


class Slowness(str, Enum):
    """What kind of slowness a statement is of."""

    LATE_RANK = "late rank"
    LATE_TOGETHER = "late together"  # several ranks, of whom no single one accounts for the waiting
    GREW = "grew"  # a transfer takes longer than before, for all members alike
    SLOW_GROUP = "slow group"  # a group's transfer takes longer than its equals'


@dataclass(frozen=True, slots=True)
class Distribution:
    """One distribution, in ms. None where there are too few values for it."""

    n: int
    low: float
    p50: float
    p90: float | None
    p99: float | None
    p999: float | None
    high: float


def distribution(count: int, row: Floats) -> Distribution | None:
    """A row of an array with the columns QUANTILES as a value; None for no values."""
    if not count or not np.isfinite(row[0]):
        return None
    low, p50, p90, p99, p999, high = (None if np.isnan(value) else float(value) for value in row)
    assert low is not None
    assert p50 is not None
    assert high is not None
    return Distribution(count, low, p50, p90, p99, p999, high)


@dataclass(frozen=True, slots=True)
class Change:
    """A lasting change within the window. `at`: unix seconds; `seq`: the first collective after it.

    `before_ms`, `after_ms`: of transfers the medians, of waiting for a rank the means per collective. `p_value`: how
    often chance alone gives as much where nothing changes. `share`: of the wall time after it that goes into what takes
    longer than before.
    """

    at: float
    seq: int
    before_ms: float
    after_ms: float
    p_value: float
    share: float

    @property
    def grew(self) -> bool:
        """Whether it became slower."""
        return self.after_ms > self.before_ms


@dataclass(frozen=True, slots=True)
class OperationKey:
    """What collectives have in common that are compared with each other.

    `role`: what the group is for, in every layout of ranks the same ("tp" for tp0, tp1, ...). `layout`: where members
    stand to each other ("8 ranks, stride 1"); `hosts`: that hold them, 0 unknown. `size`: per tensor, "16 x 4096";
    "various" where it differs by rank or is one of many rare ones. `dtype`: torch's name.
    """

    role: str
    layout: str
    op: str
    size: str
    dtype: str
    hosts: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """All collectives of one (group, op, size, dtype).

    `bytes`: of one message as nccl-tests counts it, None unknown. `members`: of the group; `ranks`: those with a row.
    `transfer`: the shortest duration of each collective over its members, None for operations that are not symmetric;
    `wait`: the longest beyond that. `grid`: the transfer's quantiles at GRID; `wait_grid`: the wait's. `bus_gb_per_s`:
    bus bandwidth of the median transfer, 1e9 bytes a second. `busy`: share of the window that its transfers take.
    """

    index: int
    group: int
    label: str
    key: OperationKey
    members: tuple[int, ...]
    ranks: tuple[int, ...]
    bytes: int | None
    symmetric: bool
    collectives: int
    transfer: Distribution | None
    wait: Distribution | None
    grid: Floats | None
    wait_grid: Floats | None
    bus_gb_per_s: float | None
    busy: float
    change: Change | None


@dataclass(frozen=True, slots=True, eq=False)
class RankTable:
    """Distributions per operation and rank. Arrays of distributions have shape (rows, len(QUANTILES)), NaN unknown.

    `operation`: Operation.index. `duration`: from its start to the end; `wait`: beyond the shortest of the same
    collective; `behind`: how much later than the first member it came; the last two NaN where operations are not
    symmetric. `last`: collectives to which it came last; `waited_s`: seconds that others waited for it in those.
    """

    operation: Ints
    rank: Ints
    count: Ints
    duration: Floats
    wait: Floats
    behind: Floats
    last: Ints
    waited_s: Floats

    def __len__(self) -> int:
        return len(self.rank)

    def of(self, operation: int) -> Iterator[int]:
        """Rows of one operation."""
        yield from np.flatnonzero(self.operation == operation).tolist()


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveTable:
    """One row per collective. `last`: global rank, -1 where the operation is not symmetric; `created`: unix seconds."""

    operation: Ints
    seq: Ints
    created: Floats
    transfer: Floats
    wait: Floats
    last: Ints

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, slots=True)
class LateRank:
    """The rank for which a group waits most. `share`: of wall time; `dominance`: of all waiting in the group.

    `first`, `last`: unix seconds of the first and the last long wait (as a tail counts them; else of the window).
    `since`: the change after which it is so, `until`: the one that ended it; None where none stands out.
    `from_start`: it was so from the window's start, so it began before.
    `share` and the rest are of the part of the window in which it is late. `absent`: members of whom there is no
    window: one of them may come later still. `elsewhere`: share of the window it spent in operations of other groups,
    None where no single rank is late. `together`: ranks that come after all others, where no single one accounts for
    the waiting, and `together_share` of wall time is waited for them.
    """

    group: int
    label: str
    members: tuple[int, ...]
    rank: int
    pattern: Pattern
    share: float
    dominance: float
    typical_ms: float
    worst_ms: float
    events: int
    rounds: int
    window: tuple[float, float]
    example: int
    elsewhere: float | None
    first: float
    last: float
    from_start: bool
    since: Change | None = None
    until: Change | None = None
    absent: tuple[int, ...] = ()
    together: tuple[int, ...] = ()
    together_share: float = 0.0


@dataclass(frozen=True, slots=True)
class SlowGroup:
    """A group whose transfer takes longer than that of its equals (same role, layout, op, size and dtype).

    `odd`: whether it stands apart from them; of two groups nobody can tell. `share`: of wall time that the difference
    takes. `peers`: how many equals.
    """

    operation: int
    label: str
    members: tuple[int, ...]
    key: OperationKey
    median_ms: float
    peers_ms: float
    peers: int
    share: float
    odd: bool

    @property
    def ratio(self) -> float:
        """How many times as long."""
        return self.median_ms / self.peers_ms


@dataclass(frozen=True, slots=True)
class Growth:
    """A transfer that takes longer since some time. `matters`: whether its `share` is enough to call that slow."""

    operation: int
    label: str
    key: OperationKey
    change: Change
    matters: bool


@dataclass(frozen=True, slots=True)
class HostSkew:
    """How late one rank enqueues against the first of its group, by host clocks: convicts nobody.

    `error_ms`: what is left of the clocks' difference, 0 on one host. `own_removed`: the hosts are unknown, so that
    each rank's ordinary offset was removed with the clocks', and only its variation shows.
    """

    group: int
    label: str
    rank: int
    behind: Distribution
    error_ms: float
    own_removed: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What has to be the same for two reports to be compared; None and "" unknown."""

    instance: str | None
    world_size: int | None
    comm_library: str
    recorder: str  # version of the dumps, which goes with torch's
    gpus: str
    hosts: int
    layouts: tuple[str, ...]  # "tp: 4 groups of 8 ranks, stride 1"


@dataclass(frozen=True, slots=True, eq=False)
class SlowReport:
    """Everything measured. `window`: unix seconds. `left_out`: collectives set aside, since dumps with stacks slowed
    the job. `disturbed`: the whole window may be slowed so; `only_disturbed`: it is, and nothing is judged by it.

    `judged`: groups of which enough was seen. `notes`: what could not be seen, and why.
    """

    timing: Timing
    window: tuple[float, float]
    disturbed: bool
    only_disturbed: bool
    left_out: int
    judged: int
    surroundings: Surroundings
    operations: tuple[Operation, ...]
    ranks: RankTable
    late: tuple[LateRank, ...]
    slow_groups: tuple[SlowGroup, ...]
    grown: tuple[Growth, ...]
    host_skew: tuple[HostSkew, ...]
    collectives: CollectiveTable | None
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return max(0.0, self.window[1] - self.window[0])

    @property
    def slow(self) -> tuple[Slowness, ...]:
        """What is slow here; empty for nothing that was seen."""
        found = []
        if any(one.pattern in (Pattern.PERSISTENT, Pattern.TAIL) for one in self.late):
            found.append(Slowness.LATE_RANK)
        if any(one.together for one in self.late):
            found.append(Slowness.LATE_TOGETHER)
        if any(one.odd for one in self.slow_groups):
            found.append(Slowness.SLOW_GROUP)
        if any(one.matters for one in self.grown):
            found.append(Slowness.GREW)
        return tuple(found)
