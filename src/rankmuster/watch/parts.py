"""What a watch is put together from, each behind what the loop asks of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rankmuster.collect.target import Target
from rankmuster.watch.events import Told
from rankmuster.watch.finding import Finder
from rankmuster.watch.progress.settings import WatchSettings
from rankmuster.watch.respond.notice import StopNotice
from rankmuster.watch.respond.outcome import StopOutcome
from rankmuster.watch.signals.signal import Counted, Heard, Signal
from rankmuster.watch.snapshot import Snapshot, StopView


class Builder(Protocol):
    """Makes the signals of a node and of an instance, and says what of the node's belongs to whom."""

    def node(self) -> Iterable[Signal]: ...

    def instance(self, target: Target) -> Iterable[Signal]: ...

    def servers(self, target: Target) -> Hashable:
        """What must stay the same for an engine's signal to stay."""
        ...

    def given_url(self, name: str) -> str | None:
        """The metrics page that somebody gave for an instance, None where it is found by itself."""
        ...

    def share(self, heard: Heard, targets: Iterable[Target]) -> Iterable[tuple[str, Heard]]:
        """(name of an instance, its part of what a signal of the node said)."""
        ...


class Responder(Protocol):
    def start(self, notice: StopNotice) -> None: ...
    def resumed(self, instance: str, at: float) -> None: ...
    def view(self, instance: str) -> StopView | None: ...
    def finished(self) -> list[StopOutcome]: ...
    def close(self, seconds: float) -> None: ...


class Sink(Protocol):
    """Who is told of each look: the state file, the exporter."""

    def update(self, snapshot: Snapshot) -> None: ...
    def heard(self, instance: str, said: Heard | Counted) -> None: ...
    def stop_outcome(self, outcome: StopOutcome) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a watch is put together from. `tell`: writes one line. `unix_now`, `clock`: seconds.

    `given`: instances that are watched by their pages though no process of theirs may be seen here; `given_unnamed`:
    what such a one is called where pages were given for whatever runs here, and nothing is seen.
    """

    finder: Finder
    builder: Builder
    responder: Responder | None
    sinks: tuple[Sink, ...]
    tell: Callable[[Told], None]
    host: str
    version: str
    draining_file: Path | None = None
    given: tuple[str, ...] = ()
    given_unnamed: str | None = None
    clock: Callable[[], float] = time.monotonic
    unix_now: Callable[[], float] = time.time
    settings: WatchSettings = field(default_factory=WatchSettings)
