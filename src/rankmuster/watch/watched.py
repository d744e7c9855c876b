"""One instance under watch: what its signals said goes in, a view and what is new about it comes out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rankmuster.collect.target import Target
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.watch.events import Severity, Told
from rankmuster.watch.progress.look import LookResult, look
from rankmuster.watch.progress.model import Event, Judgement, ProgressModel
from rankmuster.watch.progress.restless import restless, shows_stop
from rankmuster.watch.progress.settings import WatchSettings
from rankmuster.watch.progress.snapshot_of import instance_view
from rankmuster.watch.progress.window import Window
from rankmuster.watch.signals.signal import Declined, Failed, Heard
from rankmuster.watch.snapshot import InstanceView, StopView

ALARMS = frozenset({Event.STOPPED, Event.SLOW})
"""Events for which somebody should come. What is lost from sight is the alert rules' to judge: a scrape may fail."""

WELL = frozenset({Progress.ADVANCING, Progress.IDLE, Progress.SLOW, Progress.DRAINING})
"""States in which an instance has come to life."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One look at one instance. `told`: what is new, if anything is."""

    view: InstanceView
    judgement: Judgement
    told: tuple[Told, ...]


class Watched:
    """Its window and model, and which planes are asked. Not for several threads at once."""

    def __init__(self, target: Target, settings: WatchSettings) -> None:
        self.target = target
        self._settings = settings
        self._window = Window(settings)
        self._model = ProgressModel(settings)
        self._expected: frozenset[Plane] = frozenset()
        self._declined: dict[Plane, tuple[float, str]] = {}
        self._looks = 0
        self._restless = False
        self._last: Progress | None = None
        self._well_since: float | None = None  # unix seconds, of this incarnation as far as this watch can tell

    @property
    def looked(self) -> bool:
        """Whether there was a look at it yet."""
        return self._looks > 0

    @property
    def identity(self) -> str:
        """What is never the same for two starts on this node, where nothing else names the incarnation."""
        first = min(self.target.processes, key=lambda one: (one.start_ticks, one.pid), default=None)
        if first is not None:
            return f"{first.pid}-{first.start_ticks}"
        # By its pages alone: since when it was seen to do well. Else only its first stop ever would be answered.
        return f"seen-{self._well_since:.0f}" if self._well_since is not None else "unknown"

    def expect(self, planes: frozenset[Plane]) -> None:
        """Which planes are to speak at every look."""
        self._expected = planes

    def take(self, said: Heard | Failed | Declined) -> None:
        """One word of a signal."""
        if isinstance(said, Heard):
            self._window.feed(said.now, said.unix, said.observation, said.plane)
            for plane in [plane for plane, (at, _) in self._declined.items() if self._window.spoke.get(plane, at) > at]:
                del self._declined[plane]  # another source of the same plane, or the same once it could
        elif isinstance(said, Failed):
            self._window.fail(said.now, said.plane, said.reason)
        elif not self._spoke_lately(said.plane, said.now):
            # Of two sources of a plane (RAS: polls and events) one may be missing where the other speaks.
            self._declined[said.plane] = (said.now, said.reason)

    def cannot_tell(self, plane: Plane, now: float, reason: str) -> None:
        """A plane that speaks and does not tell what matters, for as long as this is said at each look."""
        self._declined[plane] = (now, reason)

    def _spoke_lately(self, plane: Plane, now: float) -> bool:
        seconds = (
            self._settings.poll_seconds if plane is Plane.RAS else self._settings.stale_looks * self._settings.period
        )
        return now - self._window.spoke.get(plane, float("-inf")) < seconds

    def restarted(self, target: Target) -> None:
        """Another incarnation, or other processes of this one: what planes declined is asked anew."""
        self.target = target
        self._declined.clear()

    @property
    def restless(self) -> bool:
        """Whether the last look gave reason to sample again before the next."""
        return self._restless

    def shows_stop(self, now: float, unix_now: float) -> bool:
        """Whether what was said since the last look shows a stop by itself; without counting as a look."""
        return shows_stop(self._seen(now, unix_now))

    def _asked(self) -> frozenset[Plane]:
        """Planes that are to speak at every look, and have not declined."""
        return self._expected - self._declined.keys()

    def _seen(self, now: float, unix_now: float) -> LookResult:
        self._window.advance(now, unix_now)
        return look(self._window, self._settings, now, habit=self._model.habit, expected=self._asked())

    def look(self, now: float, unix_now: float, *, draining: bool, last_stop: StopView | None) -> Looked:
        """Judges what was said up to `now` (monotonic seconds; `unix_now`: the wall clock read with it)."""
        began = time.process_time()
        view = self._seen(now, unix_now)
        judgement = self._model.step(now, view, draining)
        self._restless = restless(view, judgement, self._settings.thresholds(self._model.habit))
        self._looks += 1
        if judgement.event in (Event.RESTARTED, Event.GONE):
            self._well_since = None
        if judgement.state in WELL and self._well_since is None:
            self._well_since = unix_now
        shown = instance_view(
            judgement,
            view,
            self._window,
            now,
            name=self.target.name,
            settings=self._settings,
            expected=self._asked(),
            declined={plane: reason for plane, (_, reason) in self._declined.items()},
            pids=self._pids(),
            looks=self._looks,
            look_seconds=time.process_time() - began,
            last_stop=last_stop,
        )
        shown = replace(
            shown,
            engine=shown.engine or self.target.engine,
            deployment=shown.deployment or self.target.deployment,
            incarnation=shown.incarnation or self.target.incarnation,
            world_size=shown.world_size or self.target.world_size,
        )
        return Looked(shown, judgement, self._told(unix_now, shown, judgement))

    def _pids(self) -> Mapping[int, int] | None:
        workers = {process.rank: process.pid for process in self.target.workers if process.rank is not None}
        return workers or None

    def _told(self, unix_now: float, view: InstanceView, judgement: Judgement) -> tuple[Told, ...]:
        event, before = judgement.event, self._last
        self._last = judgement.state
        if event is None and before is judgement.state:
            return ()
        word = event.value if event is not None else judgement.state.value
        severity = Severity.ALARM if event in ALARMS else Severity.NOTE
        text = view.reason
        underway = (view.running or 0) + (view.waiting or 0)
        if event is Event.GONE and underway:
            text = f"{text}; {underway:.0f} requests were on their way"
        if view.suspects and event is Event.STOPPED:
            text = f"{text} [{', '.join(view.suspects)}]"
        more = (
            ("state", judgement.state.value),
            ("before", before.value if before is not None else None),
            ("since", round(view.since, 3)),
            ("incarnation", view.incarnation),
            ("class", view.class_),
            ("subclass", view.subclass),
            ("confidence", view.confidence.value if view.confidence is not None else None),
            ("suspects", list(view.suspects)),
            ("planes", {one.plane.value: one.state.value for one in view.planes}),
        )
        return (Told(unix_now, severity, self.target.name, word, text, more),)
