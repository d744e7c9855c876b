"""The loop of the watch: find instances, hear their signals, look, tell.

Everything that could block (sockets, drivers, /proc of a stuck process, collecting) is in threads of others; the loop
itself waits for nobody longer than a part of its period.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rankmuster.collect.target import Target
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.watch.events import Severity, Told
from rankmuster.watch.finding import Changes, Finder
from rankmuster.watch.finding_known import alive
from rankmuster.watch.footprint import Footprint
from rankmuster.watch.progress.model import Event
from rankmuster.watch.progress.settings import WatchSettings
from rankmuster.watch.respond.notice import StopNotice
from rankmuster.watch.respond.outcome import StopOutcome
from rankmuster.watch.runner import Crew
from rankmuster.watch.searching import NODE, Search
from rankmuster.watch.signals.signal import Counted, Declined, Heard, Said, Signal
from rankmuster.watch.snapshot import InstanceView, Snapshot, StopView
from rankmuster.watch.watched import Looked, Watched

GRACE = 0.4
"""Part of a period that the loop waits for signals that answer at once; a scrape takes hundredths of a second."""

SLACK = 0.2
"""Part of a period by which a poll may come before it is due: so that it goes with this look and not the next."""

CLOSE_SECONDS = 10.0
"""For a collection under way to close its bundle when the watch is to end; a pod has 30 s by default."""

MOST_NOTES = 32
"""In a snapshot: more than that nobody reads."""

MOST_TOLD_NOTES = 256
"""Of the search that are remembered, so that each is told once in a watch of months."""

_NUMBERS = re.compile(r"\d[\d, ]*")
"""Pids and how many they are: a note that differs in nothing else is not told again at each search."""

WORST = (Progress.STOPPED, Progress.SLOW, Progress.UNKNOWN, Progress.STARTING, Progress.DRAINING, Progress.ADVANCING)
"""Of several instances' states the first of these speaks for the node."""


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


class Agent:
    """Runs until `wake` is set. One thread calls it."""

    def __init__(self, parts: Parts, wake: threading.Event) -> None:
        self._parts = parts
        self._wake = wake
        self._crew = Crew(parts.clock)
        self._watched: dict[str, Watched] = {}
        self._views: dict[str, InstanceView] = {}  # of the last look at each
        self._stop_at: dict[str, float] = {}
        self._notes: tuple[str, ...] = ()
        self._told_notes: dict[str, None] = {}  # without their numbers; those that were said last come last
        self._footprint = Footprint(parts.clock)
        self._started = parts.unix_now()
        self._nobody_told = False
        self._declined: dict[Plane, Declined] = {}  # by signals of the node: for instances that come later

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
        parts = self._parts
        search = Search(parts.finder, parts.clock, parts.unix_now, parts.settings.period)
        self._crew.set(NODE, (search, *parts.builder.node()))

    def _rest(self, due: float) -> None:
        """Waits for the next look; where something may have stopped, GPUs are sampled once more in between."""
        clock, between = self._parts.clock, due - self._parts.settings.sample_seconds
        if between > clock() and any(watched.restless for watched in self._watched.values()):
            self._wake.wait(between - clock())
            if not self._wake.is_set():
                self.glance()
        self._wake.wait(max(due - clock(), 0.0))

    def glance(self) -> None:
        """Between two looks at everything, one at those that may have stopped, if that shows now."""
        parts, seconds = self._parts, self._parts.settings.sample_seconds
        self._crew.poll(SLACK * seconds, GRACE * seconds, self._wake)
        self._take(self._crew.drain(parts.clock()))
        now, unix_now = parts.clock(), parts.unix_now()
        stopped = [one for one in self._watched.values() if one.restless and one.shows_stop(now, unix_now)]
        if stopped:
            self._look_at(stopped, now, unix_now)

    def tick(self) -> Progress:
        """One look at everything."""
        parts = self._parts
        period = parts.settings.period
        self._crew.poll(SLACK * period, GRACE * period, self._wake)
        self._take(self._crew.drain(parts.clock()))
        if self._fresh():
            # Instances that were found this moment are asked at once, not a period later.
            self._crew.poll(SLACK * period, GRACE * period, self._wake)
            self._take(self._crew.drain(parts.clock()))
        now, unix_now = parts.clock(), parts.unix_now()
        self._standing(now)
        self._look_at(tuple(self._watched.values()), now, unix_now)
        states = {view.shown for view in self._views.values()}
        return next((state for state in WORST if state in states), Progress.IDLE if states else Progress.UNKNOWN)

    def _look_at(self, chosen: Iterable[Watched], now: float, unix_now: float) -> None:
        """Looks at these, and says what there is to be said."""
        parts, draining = self._parts, self._draining()
        looks = [self._look(watched, now, unix_now, draining) for watched in chosen]
        self._views = {name: self._views[name] for name in self._watched if name in self._views}
        self._views |= {looked.view.name: looked.view for looked in looks}
        cpu, rss = self._footprint.now()
        period, notes = parts.settings.period, self._said_of_sources()
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

    # What was said

    def _fresh(self) -> bool:
        return any(not watched.looked for watched in self._watched.values())

    def _take(self, drained: Iterable[tuple[str, Said]]) -> None:
        for owner, said in drained:
            if owner == NODE:
                self._take_of_node(said)
            elif owner in self._watched:
                self._give(owner, said)

    def _take_of_node(self, said: Said) -> None:
        if isinstance(said, Heard) and said.plane is not None:
            self._declined.pop(said.plane, None)
        if isinstance(said, Heard) and isinstance(said.observation, Changes):
            self._changed(said.observation)
        elif isinstance(said, Heard):
            targets = [watched.target for watched in self._watched.values()]
            for name, part in self._parts.builder.share(said, targets):
                self._give(name, part)
        else:
            if isinstance(said, Declined):
                self._declined[said.plane] = said
            for name in self._watched:
                self._give(name, said)

    def _give(self, name: str, said: Said) -> None:
        if not isinstance(said, Counted):
            self._watched[name].take(said)
        if isinstance(said, (Heard, Counted)):
            for sink in self._parts.sinks:
                sink.heard(name, said)

    def _standing(self, now: float) -> None:
        """What a source that speaks cannot tell holds for as long as it says so."""
        for name, watched in self._watched.items():
            for signal in self._crew.of(name):
                declined = getattr(signal, "declined", None)
                if declined:
                    watched.cannot_tell(signal.plane, now, declined)

    def _said_of_sources(self) -> tuple[str, ...]:
        """Notes of the search and of every signal, the newest of each."""
        found = list(self._notes)
        for owner in (NODE, *self._watched):
            for signal in self._crew.of(owner):
                of = f"{owner}: {signal.name}" if owner else signal.name
                found += [f"{of}: {note}" for note in getattr(signal, "notes", ())]
        return tuple(found[:MOST_NOTES])

    def watched(self, instance: str) -> Watched:
        """One of those that are watched. Raises KeyError."""
        return self._watched[instance]

    def signals(self, instance: str) -> tuple[Signal, ...]:
        """Those of an instance, "" for the node's."""
        return self._crew.of(instance)

    # Which instances there are

    def _changed(self, changes: Changes) -> None:
        parts = self._parts
        self._notes = changes.notes
        earlier = set(self._told_notes)
        for note in changes.notes:
            kind = _NUMBERS.sub("#", note)
            if kind not in earlier:
                self._tell(Severity.NOTE, "", "note", note)
            self._told_notes.pop(kind, None)
            self._told_notes[kind] = None
        for note in list(self._told_notes)[:-MOST_TOLD_NOTES]:
            del self._told_notes[note]
        for target in changes.appeared:
            if target.name in self._watched:
                self._drop(target.name)
            self._watched[target.name] = Watched(target, parts.settings)
            self._begin(target)
            self._tell(Severity.NOTE, target.name, "appeared", _told_of(target))
        for target in changes.changed:
            if target.name in self._watched:
                before = living(self._watched[target.name].target)
                self._retarget(target)
                if before != living(target) and living(target):  # else more is known of the same, or all are gone
                    self._tell(Severity.NOTE, target.name, "changed", _told_of(target))
        for name in changes.ended:
            if name in self._watched:
                self._drop(name)
                self._tell(Severity.NOTE, name, "left", "it ended, and is not looked at any more")
        self._by_pages()
        if not self._watched and not self._nobody_told:
            self._nobody_told = True
            self._tell(Severity.NOTE, "", "nobody", "no instance runs here yet; it is looked for again and again")

    def _by_pages(self) -> None:
        """Instances whose processes are another pod's: their pages can be read all the same."""
        seen = any(watched.target.processes for watched in self._watched.values())
        unnamed = self._parts.given_unnamed
        names = self._parts.given + ((unnamed,) if unnamed is not None and not seen else ())
        if unnamed in self._watched and seen and not self._watched[unnamed].target.processes:
            self._drop(unnamed)
        for name in names:
            if name not in self._watched:
                self._watched[name] = Watched(Target(name, self._parts.host, ()), self._parts.settings)
                self._begin(self._watched[name].target)
                self._tell(Severity.NOTE, name, "appeared", "no process of it is seen here; its pages alone are read")

    def _retarget(self, target: Target) -> None:
        """What is followed stays followed: beginning anew would lose where a log was, and ask RAS which NCCL it is."""
        watched, builder = self._watched[target.name], self._parts.builder
        before = watched.target
        watched.restarted(target)
        for declined in self._declined.values():  # the node's signals say it once
            watched.take(declined)
        kept = self._crew.of(target.name)
        if builder.servers(before) != builder.servers(target) or bool(before.processes) != bool(target.processes):
            self._begin(target)
            return
        for signal in kept:
            retarget = getattr(signal, "retarget", None)
            if retarget is not None:
                retarget(target)

    def _begin(self, target: Target) -> None:
        self._nobody_told = True
        signals = tuple(self._parts.builder.instance(target))
        self._crew.set(target.name, signals)
        planes = {signal.plane for signal in (*signals, *self._crew.of(NODE))}
        watched = self._watched[target.name]
        watched.expect(frozenset(planes & {Plane.ENGINE, Plane.HARDWARE}))
        for declined in self._declined.values():
            watched.take(declined)

    def _drop(self, name: str) -> None:
        self._crew.drop(name)
        del self._watched[name]
        self._stop_at.pop(name, None)

    # Looks

    def _look(self, watched: Watched, now: float, unix_now: float, draining: bool) -> Looked:
        name, responder = watched.target.name, self._parts.responder
        last = responder.view(name) if responder is not None else None
        looked = watched.look(now, unix_now, draining=draining, last_stop=last)
        for signal in self._crew.of(name):
            tell = getattr(signal, "tell", None)
            if tell is not None:
                held = last is not None and last.collect == "running"
                verdict = looked.judgement.verdict
                phase = verdict.phase if verdict is not None else None
                tell(looked.judgement.state, phase, reason=looked.judgement.reason, held=held)
        if responder is not None:
            if looked.answer:
                url = self._parts.builder.given_url(name)
                responder.start(_notice(watched, looked, self._parts.host, unix_now, url))
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
            text = _told_of_outcome(outcome)
            more: Mapping[str, object] = {
                "bundle": str(outcome.bundle) if outcome.bundle else None,
                "hooks": _told_of_hooks(outcome),
                "verdict": outcome.verdict,
            }
            self._tell(Severity.NOTE, outcome.notice.instance, "evidence", text, tuple(more.items()))

    def _tell(
        self, severity: Severity, instance: str, event: str, text: str, more: tuple[tuple[str, object], ...] = ()
    ) -> None:
        self._parts.tell(Told(self._parts.unix_now(), severity, instance, event, text, more))

    def _close(self) -> None:
        self._crew.close()
        if self._parts.responder is not None:
            self._parts.responder.close(CLOSE_SECONDS)
            self._outcomes()
        for sink in self._parts.sinks:
            sink.close()


def living(target: Target) -> frozenset[int]:
    """The pids of an instance's ranks that live, of all its processes where no rank is known."""
    return frozenset(p.pid for p in target.workers or target.processes if alive(p))


def _told_of(target: Target) -> str:
    pids = sorted(living(target))
    shown = ", ".join(map(str, pids[:8])) + (", ..." if len(pids) > 8 else "")
    of = f"{len(target.workers)} rank(s) here of {target.world_size or 'an unknown number'}"
    return f"{target.engine or 'engine unknown'}, {of}; pids {shown or 'none'}"


def _told_of_outcome(outcome: StopOutcome) -> str:
    text = f"collect {outcome.collect.text}, diagnose {outcome.diagnose.text}"
    verdict = outcome.verdict
    if verdict:
        sub = f"/{verdict.get('subclass')}" if verdict.get("subclass") else ""
        sure = f" ({verdict.get('confidence')})" if verdict.get("confidence") else ""
        summary = str(verdict.get("summary")).removeprefix(f"{verdict.get('class')}: ")
        text = f"{verdict.get('class')}{sub}{sure}: {summary}; {text}"
    if outcome.bundle is not None:
        text += f"; {outcome.bundle}"
    for hook, said in _told_of_hooks(outcome).items():
        text += f"; hook {hook} {said}"
    # Whoever reads this after a further stop must not take the first one's evidence for this one's.
    earlier = outcome.repeated and outcome.folder is not None
    return f"of an earlier stop of this incarnation, nothing new was done: {text}" if earlier else text


def _told_of_hooks(outcome: StopOutcome) -> dict[str, str]:
    """How each ended; several of one program or server are numbered from the second on."""
    found: dict[str, str] = {}
    for hook in outcome.hooks:
        name = f"{hook.kind} {hook.name}"
        number = sum(1 for key in found if key.partition(" #")[0] == name) + 1
        found[name if number == 1 else f"{name} #{number}"] = hook.ended.text
    return found


def _notice(watched: Watched, looked: Looked, host: str, unix_now: float, metrics_url: str | None) -> StopNotice:
    target, view, judgement = watched.target, looked.view, looked.judgement
    return StopNotice(
        instance=target.name,
        incarnation=target.incarnation or watched.identity,
        host=host,
        detected_at=unix_now,
        since=view.since,
        reason=judgement.reason,
        pids=tuple(process.pid for process in target.processes),
        deployment=target.deployment,
        metrics_url=metrics_url,
        state=judgement.state,
        class_=view.class_,
        subclass=view.subclass,
        confidence=judgement.confidence,
        planes=view.planes,
        suspects=judgement.suspects,
    )
