"""The progress of one instance over time: looks in, states and events out. Pure, the clock is the caller's.

A stop is what `diagnose` says is one, after so long as two looks need to show it. Starts get their time, a plane that
does not speak is never a stop, and what was seen last stands for a while when nobody can see.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.model.fault import Confidence, Progress
from rankmuster.model.plane import Plane, PlaneReport
from rankmuster.model.verdict import Suspect, Verdict
from rankmuster.watch.progress.groups import Groups
from rankmuster.watch.progress.look import LookResult
from rankmuster.watch.progress.pauses import Pauses
from rankmuster.watch.progress.restarts import Restarts
from rankmuster.watch.progress.settings import DEFAULTS, WatchSettings
from rankmuster.watch.progress.speed import Speed, SpeedKind, SpeedView
from rankmuster.watch.progress.starts import Starts
from rankmuster.watch.progress.wanted import wanted
from rankmuster.watch.snapshot import GroupView


class Event(str, Enum):
    """What is new at a look; at most one."""

    STOPPED = "stopped"
    RESUMED = "resumed"
    SLOW = "slow"
    SPEED_BACK = "speed back"
    LOST_SIGHT = "lost sight"  # no plane tells any more
    RESTARTED = "restarted"  # another incarnation, or counters that begin anew
    GONE = "gone"  # every process of it has ended


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of the instance after one look.

    `since`: monotonic seconds from which it has been in this state. `spoke`: planes that say so; `quiet_planes`: those
    that are stale or blind, with why. `suspects`: the verdict's, where planes can tell. `incarnation`, `stops`: their
    numbers since the watch began. `speed`: against its own past. `groups`: what can be told apart, each by itself.
    """

    state: Progress
    since: float
    reason: str
    spoke: tuple[Plane, ...]
    quiet_planes: tuple[PlaneReport, ...]
    suspects: tuple[Suspect, ...]
    confidence: Confidence | None
    event: Event | None
    incarnation: int
    stops: int
    speed: SpeedView
    verdict: Verdict | None = None
    groups: tuple[GroupView, ...] = ()


AT_WORK = (Progress.ADVANCING, Progress.IDLE, Progress.SLOW)


class ProgressModel:
    """One instance's. `step` is to be called once a look, with rising times."""

    def __init__(self, settings: WatchSettings = DEFAULTS, speed: Speed | None = None) -> None:
        self._settings = settings
        self._speed = speed if speed is not None else Speed()
        self._pauses = Pauses(settings)
        self._groups = Groups(settings)
        self._starts = Starts(settings)
        self._restarts = Restarts(settings.window_seconds)
        self._state = Progress.UNKNOWN
        self._since: float | None = None
        self._reason = "nothing was seen yet"
        self._spoke: tuple[Plane, ...] = ()
        self._confidence: Confidence | None = None
        self._suspects: tuple[Suspect, ...] = ()
        self._verdict: Verdict | None = None
        self._told: float | None = None  # when a plane last told its state
        self._looked: float | None = None
        self._seen_incarnation = 0
        self._incarnation = 0
        self._stops = 0
        self._resumed: float | None = None
        self._moving_looks = 0
        self._undecided = 0
        self._gone = False
        self._slow_told = False
        self._draining_since: float | None = None

    @property
    def habit(self) -> float:
        """Seconds of this instance's own long pauses, for the next look."""
        return self._pauses.habit

    def step(self, now: float, view: LookResult, draining: bool = False) -> Judgement:
        """Takes one look at `now` (monotonic seconds).

        `draining`: the platform says that the instance is being drained. What works or rests is draining then, and not
        slow: fewer and fewer requests are what was asked for. A stop stays a stop.
        """
        between = now - self._looked if self._looked is not None else 0.0
        if self._told is not None and between > self._settings.stale_looks * self._settings.period:
            # While nobody looked (a suspended machine) no plane could tell.
            self._told += between - self._settings.period
        self._looked = now
        event = self._begin(now, view)
        self._draining_since = (now if self._draining_since is None else self._draining_since) if draining else None
        self._pauses.add(view.intervals)
        self._speed.add(view.intervals)
        self._starts.take(now, view)
        starts = self._starts
        state, reason = wanted(
            view, starting=starts.still(now, view), worked=starts.worked, overdue=starts.overdue(now, view)
        )
        moved = self._move(now, state, reason, view)
        told, since, why = self._state, self._since if self._since is not None else now, self._reason
        if self._draining_since is not None and told in AT_WORK:
            told, since, why = Progress.DRAINING, self._draining_since, f"it is being drained; {why}"
        return Judgement(
            state=told,
            since=since,
            reason=why,
            spoke=self._spoke,
            quiet_planes=view.quiet_planes,
            suspects=self._suspects,
            confidence=self._confidence,
            event=moved or event,
            incarnation=self._incarnation,
            stops=self._stops,
            speed=self._speed.view(),
            verdict=self._verdict,
            groups=self._groups.step(
                now,
                view.engines,
                view.communicators,
                (view.progress, view.reason),
                (self._state, self._reason, (self._since if self._since is not None else now) + view.offset),
            ),
        )

    def _begin(self, now: float, view: LookResult) -> Event | None:
        """Another incarnation begins anew; so does a server whose counters fell."""
        first = self._incarnation == 0
        again = self._restarts.take(now, view.intervals)
        other = view.incarnation != self._seen_incarnation
        self._seen_incarnation = view.incarnation
        if not (first or other or again):
            return None
        self._starts.begin(now, fresh=other or first)
        self._incarnation += 1
        self._groups.clear()
        self._resumed = None
        # Counters that fall where nothing lives are a front end that outlives its ranks: they are gone still.
        self._gone = self._gone and not other
        self._moving_looks = 0
        if self._state is Progress.STOPPED:
            self._enter(now, Progress.UNKNOWN, "it was started again", view)
        # While all ranks are gone it is not started again: that is told when there are others.
        return None if first or (view.gone and not other) else Event.RESTARTED

    def _move(self, now: float, state: Progress, reason: str, view: LookResult) -> Event | None:
        """From the state it is in to the one that is wanted, with hysteresis."""
        settings = self._settings
        known = state is not Progress.UNKNOWN
        self._told = now if known or self._told is None else self._told
        if state is not Progress.STOPPED:
            self._undecided = 0
        if view.gone:
            before, self._gone = self._gone, True
            self._enter(now, state, reason, view)
            return None if before else Event.GONE
        self._gone = False
        if self._state is Progress.STOPPED:
            if state is Progress.STOPPED:
                self._moving_looks = 0
                self._stay(state, reason, view)
                return None
            goes_on = state in AT_WORK and not self._groups.hidden(view.engines)
            self._moving_looks = self._moving_looks + 1 if goes_on else 0
            if self._moving_looks < settings.resume_looks:
                # Not to see it any more is no sign that it goes on.
                return None
            self._resumed = now
            self._enter(now, state, reason, view)
            return Event.RESUMED
        if state is Progress.STOPPED and view.progress is Progress.STOPPED and not view.decisive:
            self._undecided += 1
            if self._undecided < settings.undecided_looks:
                return None
        if state is Progress.STOPPED:
            same = self._resumed is not None and now - self._resumed < settings.same_stop_seconds
            self._moving_looks = 0
            self._enter(now, state, reason, view)
            if same:
                return None
            self._stops += 1
            return Event.STOPPED
        if not known and self._state is not Progress.UNKNOWN:
            if now - self._told < settings.hold_seconds:
                return None
            self._enter(now, state, reason, view)
            return Event.LOST_SIGHT
        return self._at_work(now, state, reason, view)

    def _at_work(self, now: float, state: Progress, reason: str, view: LookResult) -> Event | None:
        """Among the harmless states there is nothing to wait for; slow is one way of advancing."""
        speed = self._speed.view()
        drained = self._draining_since is not None
        if (
            state is Progress.ADVANCING
            and view.loaded
            and not drained
            and speed.kind in (SpeedKind.PERSISTENT, SpeedKind.TAIL)
        ):
            self._enter(now, Progress.SLOW, f"slow ({speed.kind.value}): {speed.reason}", view)
            told, self._slow_told = self._slow_told, True
            return None if told else Event.SLOW
        self._enter(now, state, reason, view)
        if self._slow_told and speed.kind is SpeedKind.USUAL:
            self._slow_told = False
            return Event.SPEED_BACK
        return None

    def _enter(self, now: float, state: Progress, reason: str, view: LookResult) -> None:
        if state is not self._state or self._since is None:
            self._since = now
            self._suspects, self._verdict = (), None
        self._state = state
        self._stay(state, reason, view)

    def _stay(self, state: Progress, reason: str, view: LookResult) -> None:
        self._reason = reason
        self._spoke = view.spoke
        # What diagnose did not say itself is no more than possible.
        told = state in (view.progress, Progress.STOPPED)
        self._confidence = view.confidence if told else Confidence.POSSIBLE
        if state is Progress.STOPPED and view.verdict is not None:
            # Later looks of the same stop have fewer of the ordinary intervals before it: names stay.
            if view.verdict.suspects or not self._suspects:
                self._suspects = view.verdict.suspects
            self._verdict = view.verdict
