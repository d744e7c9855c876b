"""What a signal is: something that is asked again and again, and never keeps anybody waiting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from rankmuster.collect.deadline import Deadline
from rankmuster.model.plane import Plane


@dataclass(frozen=True, slots=True)
class Heard:
    """One observation. `now`: monotonic seconds when it was made; `unix`: the wall clock read with it.

    `observation`: a value of `rankmuster.model`, as `Window.feed` takes it. `plane`: whose word it is, where its type
    does not tell (a line of a log).
    """

    now: float
    unix: float
    observation: object
    plane: Plane | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The source was asked at `now` (monotonic seconds) in vain: its plane is silent. `reason`: one sentence."""

    now: float
    plane: Plane
    reason: str


@dataclass(frozen=True, slots=True)
class Declined:
    """The source is not asked, or cannot see the kind of event that matters: its plane is blind.

    `reason`: one sentence. Said once, and again where it changes.
    """

    now: float
    plane: Plane
    reason: str


@dataclass(frozen=True, slots=True)
class Counted:
    """Something to be counted that is no evidence of progress: what an exporter passes on.

    `what`: the name of the quantity, as the exporter knows it ("collective", "step"). `labels`: bounded by whoever says
    it. `values`: durations in seconds or sizes, one each. `counts`: how often each of `values` came, where they are the
    middles of somebody else's buckets; empty for once each.
    """

    what: str
    labels: tuple[tuple[str, str], ...]
    values: tuple[float, ...]
    counts: tuple[float, ...] = ()


Said = Heard | Failed | Declined | Counted


class Signal(Protocol):
    """One source. `name`: "engine", "nvml", "dcgm", "rdma", "ras", "ras-events", "framework-log", "kernel".

    `period`: seconds between two polls that it wishes for. `blind_to`: what it cannot see, one sentence, for people.
    """

    @property
    def name(self) -> str: ...

    @property
    def plane(self) -> Plane: ...

    @property
    def period(self) -> float: ...

    @property
    def blind_to(self) -> str: ...

    def poll(self, deadline: Deadline) -> Iterable[Said]:
        """What is new. Runs in a thread of the signal's own, never twice at once.

        Every wait is bounded by `deadline.remaining()`; expected trouble is a `Failed`, never an exception. Memory is
        bounded whatever the other side sends.
        """
        ...

    def close(self) -> None:
        """Gives back processes, sockets and files. May be called while `poll` hangs, from another thread."""
        ...
