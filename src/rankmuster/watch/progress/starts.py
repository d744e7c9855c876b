"""How long nothing may come of a start: weights are loaded for minutes, and kernels are compiled for the first request.

All of it ends when the instance has worked once: from then on nothing excuses a stop.
"""

from __future__ import annotations

from rankmuster.model.fault import Progress
from rankmuster.watch.progress.exchange import exchanging
from rankmuster.watch.progress.look import LookResult
from rankmuster.watch.progress.settings import WatchSettings


class Starts:
    """Of one instance, one incarnation after another. `take` is to be called once a look, with rising times."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._worked = False
        self._first_look: float | None = None
        self._loaded_since: float | None = None
        self._moving_since: float | None = None

    @property
    def worked(self) -> bool:
        """Whether this incarnation has ever produced anything."""
        return self._worked

    def begin(self, now: float, *, fresh: bool) -> None:
        """Another begins at `now` (monotonic seconds). `fresh`: with other processes, not only with other counters."""
        if fresh:
            self._first_look = now
        self._worked = False
        self._moving_since = None
        self._loaded_since = None

    def take(self, now: float, view: LookResult) -> None:
        """What the look at `now` shows of its work."""
        if view.loaded:
            self._loaded_since = now if self._loaded_since is None else self._loaded_since
        else:
            self._loaded_since = None
        self._worked = self._worked or any(one.worked or one.advanced for one in view.intervals)
        self._steady(now, view)

    def still(self, now: float, view: LookResult) -> str | None:
        """Why it may still be starting, None where it has worked or had its time."""
        if self._worked:
            return None
        if view.loaded is not None:
            # The server answers, which engines do not before they are ready.
            return self._first_step(now)
        age = self._age(now, view)
        if age is not None and age < self._settings.start_seconds:
            return f"{_how(view)} {age:.0f} s ago, and nothing has come of it yet"
        return None

    def overdue(self, now: float, view: LookResult) -> str | None:
        """Why it has not come up in the time that its operator gave it; None where none was given, or it has.

        A watch that came later than that time has not seen the start: pages that it cannot read tell it nothing.
        """
        settings, age = self._settings, self._age(now, view)
        if not settings.start_ends or self._worked or view.loaded is not None or not view.engine_expected:
            return None
        if age is None or self._first_look is None or age < settings.start_seconds:
            return None
        if age - (now - self._first_look) >= settings.start_seconds:
            return None
        return f"{_how(view)} {age:.0f} s ago, and it does not serve; it was given {settings.start_seconds:.0f} s"

    def _age(self, now: float, view: LookResult) -> float | None:
        """Seconds since it was started, or first looked at."""
        began = view.started_at if view.started_at is not None else self._first_look
        if began is not None and began > now:
            began = self._first_look
        return None if began is None else now - began

    def _steady(self, now: float, view: LookResult) -> None:
        """Without an engine's counters, work that goes on for long is no warm-up; the loading of weights is none."""
        if self._worked:
            return
        if view.engine_expected or view.progress is not Progress.ADVANCING or not exchanging(view.tracks.values()):
            self._moving_since = None
            return
        self._moving_since = now if self._moving_since is None else self._moving_since
        self._worked = now - self._moving_since >= self._settings.steady_seconds

    def _first_step(self, now: float) -> str | None:
        if self._loaded_since is None or now - self._loaded_since >= self._settings.first_step_seconds:
            return None
        return f"its first request is {now - self._loaded_since:.0f} s old, and kernels are compiled for it"


def _how(view: LookResult) -> str:
    return "started" if view.started_at is not None else "first looked at"  # who began it is not seen everywhere
