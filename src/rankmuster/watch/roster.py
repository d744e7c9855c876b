"""Which instances are watched, with which signals, and which word of a signal is whose."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator

from rankmuster.collect.target import Target
from rankmuster.model.plane import Plane
from rankmuster.watch.events import Severity, Told
from rankmuster.watch.finding import Changes
from rankmuster.watch.parts import Parts
from rankmuster.watch.runner import Crew
from rankmuster.watch.searching import NODE, Search
from rankmuster.watch.signals.signal import Counted, Declined, Heard, Said, Signal
from rankmuster.watch.telling import living, told_of
from rankmuster.watch.watched import Watched

MOST_NOTES = 32
"""In a snapshot: more than that nobody reads."""

MOST_TOLD_NOTES = 256
"""Of the search that are remembered, so that each is told once in a watch of months."""

_NUMBERS = re.compile(r"\d[\d, ]*")
"""Pids and how many they are: a note that differs in nothing else is not told again at each search."""


class Roster:
    """The instances in sight. One thread calls it; `wake`: set when the watch is to end."""

    def __init__(self, parts: Parts, wake: threading.Event) -> None:
        self._parts = parts
        self._wake = wake
        self._crew = Crew(parts.clock)
        self._watched: dict[str, Watched] = {}
        self._notes: tuple[str, ...] = ()
        self._told_notes: dict[str, None] = {}  # without their numbers; those that were said last come last
        self._nobody_told = False
        self._declined: dict[Plane, Declined] = {}  # by signals of the node: for instances that come later

    def begin(self) -> None:
        """Begins to ask for what is the node's."""
        parts = self._parts
        search = Search(parts.finder, parts.clock, parts.unix_now, parts.settings.period)
        self._crew.set(NODE, (search, *parts.builder.node()))

    def hear(self, slack: float, grace: float) -> None:
        """Begins all polls that are due within `slack` seconds, waits for `grace`, and takes what was said.

        Instances that are found this moment are asked at once, not a period later.
        """
        self._crew.poll(slack, grace, self._wake)
        self._take(self._crew.drain(self._parts.clock()))
        if any(not watched.looked for watched in self._watched.values()):
            self._crew.poll(slack, grace, self._wake)
            self._take(self._crew.drain(self._parts.clock()))
        self._standing(self._parts.clock())

    def __iter__(self) -> Iterator[Watched]:
        return iter(tuple(self._watched.values()))

    @property
    def names(self) -> frozenset[str]:
        """Of the instances in sight."""
        return frozenset(self._watched)

    def watched(self, instance: str) -> Watched:
        """One of those that are watched. Raises KeyError."""
        return self._watched[instance]

    def signals(self, instance: str) -> tuple[Signal, ...]:
        """Those of an instance, "" for the node's."""
        return self._crew.of(instance)

    def close(self) -> None:
        """Closes all signals."""
        self._crew.close()

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

    def notes(self) -> tuple[str, ...]:
        """Notes of the search and of every signal, the newest of each."""
        found = list(self._notes)
        for owner in (NODE, *self._watched):
            for signal in self._crew.of(owner):
                of = f"{owner}: {signal.name}" if owner else signal.name
                found += [f"{of}: {note}" for note in getattr(signal, "notes", ())]
        return tuple(found[:MOST_NOTES])

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
            self._tell(Severity.NOTE, target.name, "appeared", told_of(target))
        for target in changes.changed:
            if target.name in self._watched:
                before = living(self._watched[target.name].target)
                self._retarget(target)
                if before != living(target) and living(target):  # else more is known of the same, or all are gone
                    self._tell(Severity.NOTE, target.name, "changed", told_of(target))
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

    def _tell(self, severity: Severity, instance: str, event: str, text: str) -> None:
        self._parts.tell(Told(self._parts.unix_now(), severity, instance, event, text))
