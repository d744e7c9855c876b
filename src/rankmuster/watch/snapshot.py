"""What the watch knows at one look, as frozen values: for the exporter, for `top`, for readers of the state file.

As JSON (schema `rankmuster.watch/1`): the same names, enums as their values, `class_` as `class`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rankmuster.model.fault import Confidence, Progress
from rankmuster.model.plane import Plane, PlaneState

SCHEMA = "rankmuster.watch/1"


@dataclass(frozen=True, slots=True)
class RankView:
    """One rank that lives on this node. `doing`: of its GPU, "spinning", "moving", "idle", ... (`spin.Doing`), or None.

    Percent, watts, KiB per second between the two newest samples; None where not said. `state`: the kernel's letter.
    `role`: "culprit", "suspect" or "victim" of the stop that is on, else None.
    """

    rank: int | None
    pid: int
    gpu: int | None
    doing: str | None = None
    sm_percent: float | None = None
    power_w: float | None = None
    nvlink_kib_per_s: float | None = None
    state: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class PlaneView:
    """`age`: seconds since it spoke last, None for never in this incarnation. `note`: why it does not speak."""

    plane: Plane
    state: PlaneState
    age: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group, or one data-parallel engine, whose progress can be told apart. `kind`: "communicator" or "engine"."""

    kind: str
    name: str
    state: Progress
    reason: str
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StopView:
    """The last stop of an instance and what came of it. Times are unix seconds.

    `collect`, `diagnose`, `hook`: "running", "done", "failed: why", "off", "not done: why"; see `respond`.
    `class_`, `subclass`, `summary`, `culprits`: of the verdict on the bundle, None or empty while there is none.
    """

    at: float
    incarnation: str
    reason: str
    resumed_at: float | None = None
    collect: str = "off"
    diagnose: str = "off"
    hook: str = "off"
    bundle: str | None = None
    class_: str | None = None
    subclass: str | None = None
    summary: str | None = None
    culprits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InstanceView:
    """One instance. `since`: unix seconds from which it has been in `state`. `event`: of this look, or None.

    `tokens_per_s`, `running`, `waiting`: of all its engines together, None without a page. `speed_kind`: `SpeedKind`.
    `speed_now`, `speed_usual`: tokens per second and request. `stops`, `looks`: since the watch began.
    `look_seconds`: what the last look took of the processor.
    """

    name: str
    state: Progress
    since: float
    reason: str
    deployment: str | None = None
    incarnation: str | None = None
    engine: str | None = None
    world_size: int | None = None
    event: str | None = None
    confidence: Confidence | None = None
    class_: str | None = None
    subclass: str | None = None
    suspects: tuple[str, ...] = ()
    ranks: tuple[RankView, ...] = ()
    planes: tuple[PlaneView, ...] = ()
    groups: tuple[GroupView, ...] = ()
    tokens_per_s: float | None = None
    running: float | None = None
    waiting: float | None = None
    speed_kind: str = "unknown"
    speed_now: float | None = None
    speed_usual: float | None = None
    stops: int = 0
    looks: int = 0
    look_seconds: float = 0.0
    last_stop: StopView | None = None

    @property
    def shown(self) -> Progress:
        """What the state comes to for an exit status: a start that no plane shows is a guess, and may be a stop."""
        # The kernel's log speaks of the node, whatever becomes of the instance.
        spoke = any(one.state is PlaneState.SPOKE and one.plane is not Plane.KERNEL for one in self.planes)
        unseen = self.state is Progress.STARTING and not spoke
        return Progress.UNKNOWN if unseen else self.state


@dataclass(frozen=True, slots=True)
class WatcherView:
    """The watch itself. `cpu_seconds`: since its start, its children's too; `rss_bytes`: with its children."""

    version: str
    started_at: float
    period: float
    cpu_seconds: float = 0.0
    rss_bytes: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`time`: unix seconds of the look."""

    host: str
    time: float
    watcher: WatcherView
    instances: tuple[InstanceView, ...] = field(default=())
