"""The platform plane as a collector on the node sees it: the instance's processes from outside, limits, identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class TaskState(str, Enum):
    """A process's state as the kernel writes it (proc(5)), and `GONE` where it was not there any more."""

    RUNNING = "R"
    SLEEPING = "S"
    UNINTERRUPTIBLE = "D"  # waits in the kernel for a device, a file system or a driver
    STOPPED = "T"  # by a signal: it runs again after SIGCONT
    TRACED = "t"  # a debugger or profiler holds it
    ZOMBIE = "Z"  # ended, and its parent has not asked how
    DEAD = "X"
    IDLE = "I"
    GONE = "gone"
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class TaskLook:
    """One look at one process. `time`: unix seconds; `cpu_seconds`: since it started, user and system.

    `switches`: voluntary context switches since it started: one that waits without a break makes none.
    """

    time: float
    state: TaskState
    wait_channel: str | None = None
    cpu_seconds: float | None = None
    switches: int | None = None


@dataclass(frozen=True, slots=True)
class StuckThread:
    name: str
    state: TaskState
    wait_channel: str | None


@dataclass(frozen=True, slots=True)
class NodeTask:
    """A process of the instance. `pid`: in its own numbering. `exit_code`: of a zombie, -N for signal N; else None.

    `memlock_bytes`: soft limit, infinity for none.
    """

    pid: int
    rank: int | None
    role: str | None
    name: str | None
    looks: tuple[TaskLook, ...]
    exit_code: int | None = None
    memlock_bytes: float | None = None
    rss_bytes: int | None = None
    threads: int | None = None
    stuck_threads: tuple[StuckThread, ...] = ()

    @property
    def seconds(self) -> float:
        """Between the first look and the last."""
        return self.looks[-1].time - self.looks[0].time if self.looks else 0.0

    def always(self, state: TaskState) -> bool:
        """Whether it was in this state at every look, of which there were two at least."""
        return len(self.looks) > 1 and all(look.state is state for look in self.looks)

    @property
    def cpu_share(self) -> float | None:
        """CPU time per second between the looks, 1.0 for one core; None without two looks."""
        known = [look for look in self.looks if look.cpu_seconds is not None]
        if len(known) < 2 or known[-1].time <= known[0].time:
            return None
        return ((known[-1].cpu_seconds or 0.0) - (known[0].cpu_seconds or 0.0)) / (known[-1].time - known[0].time)


@dataclass(frozen=True, slots=True)
class KernelTask:
    """One thread of a process as the kernel sees it. `pid`: in its own numbering. `main`: the process's first thread.

    `wait_channel`: the kernel function that it waits in, None where it does not wait or that is not said.
    `system_call`: number on its machine. `frames`: the kernel's stack, innermost first; empty where it may not be read.
    """

    source: str
    rank: int | None
    pid: int
    tid: int
    name: str
    state: TaskState
    wait_channel: str | None
    system_call: int | None
    main: bool
    frames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CgroupLook:
    """Limits and counters of one control group at one time. Bytes; None where there is no limit, or it is not said."""

    path: str
    time: float
    memory_max: int | None
    memory_current: int | None
    oom_kills: int | None  # processes that the kernel killed for want of memory, since the group was made


@dataclass(frozen=True, slots=True)
class SharedMemory:
    size_bytes: int
    free_bytes: int
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeState:
    """`platform/node.json`. `looks`: unix seconds; `facts`: everything else, keys joined with " / "."""

    source: str
    host: str | None
    looks: tuple[float, ...]
    tasks: tuple[NodeTask, ...]
    cgroups: tuple[CgroupLook, ...] = ()
    shared_memory: tuple[SharedMemory, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
