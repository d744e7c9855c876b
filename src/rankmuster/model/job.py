"""The aligned job: ranks, groups, and what every plane says of them on one clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rankmuster.model.engine import EnginePage
from rankmuster.model.flight import FlightDump
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.ras import RasPoll


@dataclass(frozen=True, slots=True)
class Rank:
    """A global rank and every name it goes by. `host` as RAS names it where it does; `aliases`: names seen in logs."""

    rank: int
    host: str | None = None
    pid: int | None = None
    gpu: int | None = None
    gpu_uuid: str | None = None
    bus_id: str | None = None
    pod: str | None = None
    aliases: tuple[str, ...] = ()
    exit_code: int | None = None
    exited_at: float | None = None
    has_exit_facts: bool = False  # a supervisor listed this process
    gone: bool = False  # ... and it had ended at its last look, however that was


@dataclass(frozen=True, slots=True)
class Group:
    """A process group; identity is the member set plus its name.

    `inferred`: no dump tells its members; those known are the ranks that use its name, and there may be more.
    """

    key: int
    name: str
    desc: str
    members: tuple[int, ...]
    inferred: bool = False

    @property
    def label(self) -> str:
        """The name people know it by."""
        if self.desc and self.desc != "undefined":
            return self.desc
        return self.name or "unnamed"


@dataclass(frozen=True, slots=True)
class RankGroupView:
    """Where one rank stands in one group.

    `issued`: highest sequence it enqueued; `finished`: highest it finished; -1 none. `from_log`: no dump, only what its
    watchdog said.
    """

    rank: int
    issued: int
    finished: int
    from_log: bool = False


@dataclass(frozen=True, slots=True)
class DumpFacts:
    """What is known of one dump as a whole.

    `look`: unix seconds at which it was taken, None unknown (then it is presumed written at a time-out).
    `in_motion`: it holds completed entries that are not retired, which only dumps of a moving job do; or an older look
    at the same recorder shows that all ranks went on in between (`went_on`).
    `stale`: it belongs to another run. `earlier`: it was taken in motion, and its peers' later, when nobody moved any
    more: where the rank stands at last is unknown.
    """

    rank: int
    source: str
    look: float | None
    look_from: str  # "manifest", "log", "newest stamp", "presumed"
    in_motion: bool
    stale: bool
    entries: int
    has_events: bool
    has_timing: bool
    went_on: bool = False
    earlier: bool = False

    @property
    def look_noted(self) -> bool:
        """Whether the look time comes from outside the dump; its own newest stamp bounds an age from below only."""
        return self.look_from in ("manifest", "log")


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Everything aligned. Times are unix seconds on the reference clock where they could be anchored."""

    facts: InstanceFacts | None
    ranks: tuple[Rank, ...]
    world_size: int | None
    groups: tuple[Group, ...]
    dumps: Mapping[int, FlightDump]  # by global rank, the newest sound dump each
    dump_facts: Mapping[int, DumpFacts]
    views: Mapping[tuple[int, int], RankGroupView]  # by (group key, rank)
    polls: tuple[RasPoll, ...]  # in order of time
    pages: tuple[EnginePage, ...]  # in order of time
    tracks: Mapping[int, GpuTrack]  # by global rank
    local_groups: Mapping[tuple[int, int], int] = field(default_factory=dict)  # (rank, index in its dump) -> group key
    first_timeout: float | None = None
    clock_offsets: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # host -> (offset, error) seconds
    window: tuple[float | None, float | None] = (None, None)
    _by_number: Mapping[int, Rank] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_number", {rank.rank: rank for rank in self.ranks})

    def rank(self, number: int) -> Rank:
        """The rank of that number; a bare one where nothing else is known of it."""
        return self._by_number.get(number) or Rank(number)

    def hosts(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The known hosts of `ranks`, once each, sorted."""
        return tuple(sorted({host for rank in ranks if (host := self.rank(rank).host) is not None}))
