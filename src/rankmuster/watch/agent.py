"""The loop of the watch: hear, look, tell.

Everything that could block (sockets, drivers, /proc of a stuck process, collecting) is in threads of others; the loop
itself waits for nobody longer than a part of its period.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from rankmuster.model.fault import Progress
from rankmuster.watch.events import Severity, Told
from rankmuster.watch.footprint import Footprint
from rankmuster.watch.parts import Parts
from rankmuster.watch.progress.model import Event
from rankmuster.watch.roster import Roster
from rankmuster.watch.signals.signal import Signal
from rankmuster.watch.snapshot import InstanceView, Snapshot
from rankmuster.watch.telling import notice_of, told_of_hooks, told_of_outcome
from rankmuster.watch.watched import Looked, Watched

GRACE = 0.4
"""Part of a period that the loop waits for signals that answer at once; a scrape takes hundredths of a second."""

SLACK = 0.2
"""Part of a period by which a poll may come before it is due: so that it goes with this look and not the next."""

CLOSE_SECONDS = 10.0
"""For a collection under way to close its bundle when the watch is to end; a pod has 30 s by default."""

WORST = (Progress.STOPPED, Progress.SLOW, Progress.UNKNOWN, Progress.STARTING, Progress.DRAINING, Progress.ADVANCING)
"""Of several instances' states the first of these speaks for the node."""


class Agent:
    """Runs until `wake` is set. One thread calls it."""

    def __init__(self, parts: Parts, wake: threading.Event) -> None:
        self._parts = parts
        self._wake = wake
        self._roster = Roster(parts, wake)
        self._views: dict[str, InstanceView] = {}  # of the last look at each
        self._footprint = Footprint(parts.clock)
        self._started = parts.unix_now()

    def run(self, seconds: float | None = None) -> Progress:
        """Looks each period until woken, or for so many seconds; the state that speaks for the node at the end."""
        parts, period = self._parts, self._parts.settings.period
        begun = parts.clock()
        self.begin()
        worst = Progress.UNKNOWN
        due = begun
        try:
            while not self._wake.is_set():
                worst = self.tick()
                now = parts.clock()
                if seconds is not None and now - begun >= seconds:
                    break
                # By the plan, so that looks stay a period apart; after a pause (a suspended machine) from now on.
                due = due + period if due + period > now - period else now
                self._rest(due)
        finally:
            self._close()
        return worst

    def begin(self) -> None:
        """Begins to ask for what is the node's; before the first `tick`."""
        self._roster.begin()

    def _rest(self, due: float) -> None:
        """Waits for the next look; where something may have stopped, GPUs are sampled once more in between."""
        clock, between = self._parts.clock, due - self._parts.settings.sample_seconds
        if between > clock() and any(watched.restless for watched in self._roster):
            self._wake.wait(between - clock())
            if not self._wake.is_set():
                self.glance()
        self._wake.wait(max(due - clock(), 0.0))

    def glance(self) -> None:
        """Between two looks at everything, one at those that may have stopped, if that shows now."""
        parts, seconds = self._parts, self._parts.settings.sample_seconds
        self._roster.hear(SLACK * seconds, GRACE * seconds)
        now, unix_now = parts.clock(), parts.unix_now()
        stopped = [one for one in self._roster if one.restless and one.shows_stop(now, unix_now)]
        if stopped:
            self._look_at(stopped, now, unix_now)

    def tick(self) -> Progress:
        """One look at everything."""
        parts = self._parts
        period = parts.settings.period
        self._roster.hear(SLACK * period, GRACE * period)
        self._look_at(self._roster, parts.clock(), parts.unix_now())
        states = {view.shown for view in self._views.values()}
        return next((state for state in WORST if state in states), Progress.IDLE if states else Progress.UNKNOWN)

    def _look_at(self, chosen: Iterable[Watched], now: float, unix_now: float) -> None:
        """Looks at these, and says what there is to be said."""
        parts, draining = self._parts, self._draining()
        looks = [self._look(watched, now, unix_now, draining) for watched in chosen]
        self._views = {name: view for name, view in self._views.items() if name in self._roster.names}
        self._views |= {looked.view.name: looked.view for looked in looks}
        cpu, rss = self._footprint.now()
        period, notes = parts.settings.period, self._roster.notes()
        snapshot = Snapshot(
            host=parts.host,
            time=unix_now,
            watcher=self._footprint.view(parts.version, self._started, period, cpu, rss, notes),
            instances=tuple(self._views[name] for name in sorted(self._views)),
        )
        for sink in parts.sinks:
            sink.update(snapshot)
        for looked in looks:  # after the state file: whoever is told may look there
            for told in looked.told:
                parts.tell(told)
        self._outcomes()

    def watched(self, instance: str) -> Watched:
        """One of those that are watched. Raises KeyError."""
        return self._roster.watched(instance)

    def signals(self, instance: str) -> tuple[Signal, ...]:
        """Those of an instance, "" for the node's."""
        return self._roster.signals(instance)

    def _look(self, watched: Watched, now: float, unix_now: float, draining: bool) -> Looked:
        name, responder = watched.target.name, self._parts.responder
        last = responder.view(name) if responder is not None else None
        looked = watched.look(now, unix_now, draining=draining, last_stop=last)
        for signal in self._roster.signals(name):
            tell = getattr(signal, "tell", None)
            if tell is not None:
                held = last is not None and last.collect == "running"
                verdict = looked.judgement.verdict
                phase = verdict.phase if verdict is not None else None
                tell(looked.judgement.state, phase, reason=looked.judgement.reason, held=held)
        if responder is not None:
            if looked.judgement.event is Event.STOPPED:
                url = self._parts.builder.given_url(name)
                responder.start(notice_of(watched, looked, self._parts.host, unix_now, url))
            elif looked.judgement.event in (Event.RESUMED, Event.RESTARTED):
                responder.resumed(name, unix_now)
        return looked

    def _draining(self) -> bool:
        file = self._parts.draining_file
        return file is not None and file.exists()

    def _outcomes(self) -> None:
        if self._parts.responder is None:
            return
        for outcome in self._parts.responder.finished():
            for sink in self._parts.sinks:
                sink.stop_outcome(outcome)
            text = told_of_outcome(outcome)
            more: tuple[tuple[str, object], ...] = (
                ("bundle", str(outcome.bundle) if outcome.bundle else None),
                ("hooks", told_of_hooks(outcome)),
                ("verdict", outcome.verdict),
            )
            told = Told(self._parts.unix_now(), Severity.NOTE, outcome.notice.instance, "evidence", text, more)
            self._parts.tell(told)

    def _close(self) -> None:
        self._roster.close()
        if self._parts.responder is not None:
            self._parts.responder.close(CLOSE_SECONDS)
            self._outcomes()
        for sink in self._parts.sinks:
            sink.close()
