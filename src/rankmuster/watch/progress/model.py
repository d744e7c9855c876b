"""The progress of one instance over time: looks in, states and events out. Pure, the clock is the caller's.

A stop is what `diagnose` says is one, after so long as two looks need to show it. Starts get their time, a plane that
does not speak is never a stop, and what was seen last stands for a while when nobody can see.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.diagnose.thresholds import DEFAULTS as DIAGNOSE
from rankmuster.model.fault import Confidence, Progress
from rankmuster.model.plane import Plane, PlaneReport
from rankmuster.model.verdict import Suspect, Verdict
from rankmuster.watch.progress.exchange import exchanging
from rankmuster.watch.progress.groups import Groups
from rankmuster.watch.progress.look import LookResult
from rankmuster.watch.progress.pauses import Pauses
from rankmuster.watch.progress.settings import DEFAULTS, WatchSettings
from rankmuster.watch.progress.speed import Speed, SpeedKind, SpeedView
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


FALLS = DIAGNOSE.most_resets + 1
"""Falls of counters within a window that are too many to be restarts."""

MOST_QUIET = 3
"""Planes that a reason names with why they do not tell; the view has all."""

AT_WORK = (Progress.ADVANCING, Progress.IDLE, Progress.SLOW)


class ProgressModel:
    """One instance's. `step` is to be called once a look, with rising times."""

    def __init__(self, settings: WatchSettings = DEFAULTS, speed: Speed | None = None) -> None:
        self._settings = settings
        self._speed = speed if speed is not None else Speed()
        self._pauses = Pauses(settings)
        self._groups = Groups(settings)
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
        self._worked = False  # whether this incarnation has ever produced anything
        self._first_look: float | None = None  # of this incarnation
        self._loaded_since: float | None = None
        self._stops = 0
        self._resumed: float | None = None
        self._moving_looks = 0
        self._undecided = 0
        self._gone = False
        self._moving_since: float | None = None
        self._slow_told = False
        self._falls: list[float] = []  # when counters fell, the last few
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
        if view.loaded:
            self._loaded_since = now if self._loaded_since is None else self._loaded_since
        else:
            self._loaded_since = None
        self._worked = self._worked or any(one.worked or one.advanced for one in view.intervals)
        self._steady(now, view)
        state, reason = self._wanted(now, view)
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
        first = self._first_look is None
        fell = max((one.at for one in view.intervals if one.fell), default=None)
        again = fell is not None and self._falls[-1:] != [fell]
        if again and fell is not None:
            recent = [at for at in self._falls if now - at < self._settings.window_seconds]
            self._falls = [*recent, fell][-FALLS:]
            # Counters that fall again and again are several servers' under one name, and no restart.
            again = len(self._falls) < FALLS
        other = view.incarnation != self._seen_incarnation
        self._seen_incarnation = view.incarnation
        if not (first or other or again):
            return None
        if other or first:
            self._first_look = now
        self._incarnation += 1
        self._groups.clear()
        self._worked = False
        self._moving_since = None
        self._loaded_since = None
        self._resumed = None
        # Counters that fall where nothing lives are a front end that outlives its ranks: they are gone still.
        self._gone = self._gone and not other
        self._moving_looks = 0
        if self._state is Progress.STOPPED:
            self._enter(now, Progress.UNKNOWN, "it was started again", view)
        return None if first else Event.RESTARTED

    def _steady(self, now: float, view: LookResult) -> None:
        """Without an engine's counters, work that goes on for long is no warm-up; the loading of weights is none."""
        if self._worked:
            return
        if view.engine_expected or view.progress is not Progress.ADVANCING or not exchanging(view.tracks.values()):
            self._moving_since = None
            return
        self._moving_since = now if self._moving_since is None else self._moving_since
        self._worked = now - self._moving_since >= self._settings.steady_seconds

    def _wanted(self, now: float, view: LookResult) -> tuple[Progress, str]:
        """The state that this look speaks for, and why."""
        if view.gone:
            return Progress.UNKNOWN, "every process of the instance has ended: there is nothing that could advance"
        said = view.progress
        starting = self._starting(now, view)
        if said is Progress.STOPPED:
            if starting is not None:
                return Progress.STARTING, f"{starting}; {view.reason}"
            return said, view.reason
        if starting is not None and said is not Progress.IDLE and not (said is Progress.ADVANCING and view.loaded):
            return Progress.STARTING, starting
        idle_by_gauges = said is Progress.UNKNOWN and view.spoke == (Plane.ENGINE, Plane.HARDWARE)
        if idle_by_gauges and self._worked and view.all_spin:
            # At a start that is a warm-up. Later gauges of engines that set them with each step do not show who waits.
            return Progress.STOPPED, f"{view.reason}; yet it has worked before: this is no start"
        if said is Progress.UNKNOWN and any(one.stirred and one.loaded for one in view.intervals):
            return Progress.ADVANCING, "its gauges change while no counter does: perhaps a long prefill"
        if said is Progress.SLOW:
            # Over a window of two minutes a change of load looks the same: `speed` has an hour to compare with.
            return Progress.ADVANCING, view.reason
        if said is Progress.UNKNOWN and view.quiet_planes:
            told = (f"{one.plane.value}: {one.note}" for one in view.quiet_planes[:MOST_QUIET])
            return said, "; ".join((view.reason, *told))
        return said, view.reason

    def _starting(self, now: float, view: LookResult) -> str | None:
        """Why it may still be starting, None where it has worked or had its time."""
        if self._worked:
            return None
        settings = self._settings
        if view.loaded is not None:
            # The server answers, which engines do not before they are ready.
            return self._first_step(now)
        began = view.started_at if view.started_at is not None else self._first_look
        if began is not None and began > now:
            began = self._first_look
        if began is not None and now - began < settings.start_seconds:
            how = "started" if view.started_at is not None else "first looked at"  # who began it is not seen everywhere
            return f"{how} {now - began:.0f} s ago, and nothing has come of it yet"
        return None

    def _first_step(self, now: float) -> str | None:
        if self._loaded_since is None or now - self._loaded_since >= self._settings.first_step_seconds:
            return None
        return f"its first request is {now - self._loaded_since:.0f} s old, and kernels are compiled for it"

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
