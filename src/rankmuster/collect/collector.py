"""What a collector is, and what it is given."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Outcome
from rankmuster.collect.target import Target
from rankmuster.collect.wishes import Wishes
from rankmuster.model.fault import Phase, Progress

if TYPE_CHECKING:  # a watch knows what a scene is, and puts nothing into a bundle itself
    from rankmuster.collect.sink import Sink


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the evidence of the first looks says of the instance. `reason`: one sentence.

    `stop_confirmed`: positive evidence that work has stopped. `healthy`: positive evidence that it advances, or that
    there is none. Neither is the usual case when little could be seen.
    """

    progress: Progress
    phase: Phase | None
    stop_confirmed: bool
    healthy: bool
    reason: str


class Board:
    """What the collectors tell one another while they run; may be used from any thread."""

    def __init__(self) -> None:
        self._assessed = threading.Event()
        self._dumped = threading.Event()
        self._ending = threading.Event()
        self._assessment: Assessment | None = None

    def post_assessment(self, assessment: Assessment) -> None:
        """Says what the first looks showed; once."""
        self._assessment = assessment
        self._assessed.set()

    def assessment(self, deadline: Deadline) -> Assessment | None:
        """Waits for the assessment; None when there is none by then."""
        self._assessed.wait(deadline.remaining())
        return self._assessment

    def post_dumped(self) -> None:
        """Says that the Flight Recorder's dumps are taken, or will not be."""
        self._dumped.set()

    def dumped(self, deadline: Deadline) -> bool:
        """Waits until the dumps are taken or given up; False when that did not happen in time."""
        return self._dumped.wait(deadline.remaining())

    def post_ending(self) -> None:
        """Says that every collector with an end of its own has ended: those that sample may stop."""
        self._ending.set()

    def ending(self, seconds: float) -> bool:
        """Waits at most so long; True when nothing is left to sample for."""
        return self._ending.wait(seconds)


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a collector may know. `now`: unix seconds."""

    target: Target | None  # None: no instance was found; the node's own facts are still taken
    machine: Machine
    wishes: Wishes
    board: Board = field(default_factory=Board)
    now: Callable[[], float] = time.time
    clock: Callable[[], float] = time.monotonic


class Collector(Protocol):
    """One source of evidence. Frozen; everything that changes goes into the sink.

    `name`: as the manifest lists it; `plane`s by name where it is the only one of its plane ("ras", "kernel"), else
    something more particular ("flight-pipes"). `budget_seconds`: its own deadline.
    """

    @property
    def name(self) -> str: ...

    @property
    def budget_seconds(self) -> float: ...

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """Takes what it can by the deadline, putting each piece into the sink as soon as it has it.

        Runs in a thread of its own and may be abandoned at any moment: no locks held for long, no temporary state
        elsewhere, every wait bounded by `deadline.remaining()`. Expected trouble becomes an Outcome; an exception that
        escapes is recorded as FAILED with its text. `SinkClosed` from the sink should be let through.
        """
        ...
