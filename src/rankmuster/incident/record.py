"""One incident's events as its runner writes and reads them: in order, under the lease, and nothing illegal.

Steps run in threads of their own; their writes come one after the other here. What a step writes after it was abandoned
is dropped. A runbook without a journal must not act, so a journal that fails is asked again for a while, and then
everything stops where it stands.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from rankmuster.collect.deadline import Clock
from rankmuster.incident.journal import Journal, JournalError, LeaseLost
from rankmuster.incident.lease_keeper import LeaseKeeper
from rankmuster.incident.machine.fold import advance, fold
from rankmuster.incident.machine.state import Incident
from rankmuster.model.incident import Ending, Event, EventKind, Lease, Step
from rankmuster.report.inert import plain

PATIENCE = 15.0
"""Seconds for which a failing journal is asked again: a database server restarts within them."""

PAUSES = (0.1, 0.2, 0.4, 0.8, 1.0)
"""Seconds between attempts; the last one again and again."""

MOST_NOTE = 1_000
"""Characters of a note: a sentence or three."""

MOST_DATA = 64 * 1024
"""Characters of an event's data as JSON. A list of a thousand pids takes 8 KiB."""

_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


T = TypeVar("T")


class Stopped(Exception):
    """The runner may do nothing more with this incident: its lease is lost, or the journal cannot be written."""


class Left(Exception):
    """The step that wants to go on was abandoned: nobody waits for it."""


def tidy_note(text: object) -> str:
    """A note without passwords in addresses, on one line, and inert."""
    return plain(_USERINFO.sub("", str(text)), MOST_NOTE)


def tidy_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Values that JSON has, within a size. What an actuator gives may be anything."""
    try:
        text = json.dumps(dict(data), default=str, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return {"left_out": f"it is no JSON: {plain(error, 200)}"}
    if len(text) > MOST_DATA:
        return {"left_out": f"it has {len(text)} characters; kept are at most {MOST_DATA}"}
    found: dict[str, Any] = json.loads(_USERINFO.sub("", text))
    return found


class Record:
    """`reached` is told what has just been written, for tools that stop a runner there. `told` gets every event that
    comes in, own ones too."""

    def __init__(
        self,
        journal: Journal,
        keeper: LeaseKeeper,
        incident: str,
        by: str,
        *,
        clock: Clock,
        unix_now: Callable[[], float],
        pause: Callable[[float], object],
        reached: Callable[[str], None],
        told: Callable[[Event], None],
    ) -> None:
        self._journal, self._keeper, self._id, self._by = journal, keeper, incident, by
        self._clock, self._unix_now, self._pause = clock, unix_now, pause
        self._reached, self._told = reached, told
        self._lock = threading.RLock()
        self._left: dict[Step, int] = {}
        self._stopped: str | None = None
        events = self._patiently(lambda: journal.events(incident), "read")
        self._incident = fold(incident, events)
        self._events = list(events)

    @property
    def incident(self) -> Incident:
        with self._lock:
            return self._incident

    @property
    def events(self) -> tuple[Event, ...]:
        with self._lock:
            return tuple(self._events)

    @property
    def stopped(self) -> str | None:
        """Why nothing more may be done; None while something may."""
        with self._lock:
            return self._stopped

    @property
    def lost(self) -> str | None:
        """The same, by the lease's own clock and at once: nobody who writes is waited for."""
        return self._stopped or self._keeper.lost

    def refresh(self) -> Incident:
        """Reads what others have written: operators, and an older runner's last words. Raises Stopped."""
        with self._lock:
            self._may_go_on()
            self._take_in(self._patiently(lambda: self._journal.events(self._id, self._last), "read"))
            return self._incident

    def write(
        self,
        kind: EventKind,
        *,
        step: Step | None = None,
        action: str | None = None,
        ending: Ending | None = None,
        note: object = "",
        data: Mapping[str, Any] | None = None,
        within: int | None = None,
    ) -> Event:
        """Writes one event. `within`: the number that `begin` gave to the step that writes.

        Raises Stopped; Left where the step was abandoned; IllegalTransition before anything is written.
        """
        event = Event(
            kind=kind,
            at=self._unix_now(),
            step=step,
            action=action,
            ending=ending,
            note=tidy_note(note),
            by=self._by,
            data=tidy_data(data or {}),
        )
        with self._lock:
            self._may_go_on()
            if within is not None and step is not None and self._left.get(step) != within:
                raise Left(f"{step.value} was abandoned")
            advance(self._incident, replace(event, sequence=self._last + 1))
            written: Event = self._patiently(self._appending(event), "written")
            if written.sequence == self._last + 1:
                self._take_in((written,))
            else:
                self._take_in(self._patiently(lambda: self._journal.events(self._id, self._last), "read"))
        self._reached(f"{kind.value}:{step.value if step else ''}:{action or ''}")
        return written

    def begin(self, step: Step) -> int:
        """Whoever writes for that step has this number; one that had another is left behind."""
        with self._lock:
            self._left[step] = self._left.get(step, 0) + 1
            return self._left[step]

    def leave(self, step: Step) -> None:
        """What still runs for that step writes nothing any more."""
        with self._lock:
            self._left[step] = self._left.get(step, 0) + 1

    def is_left(self, step: Step, number: int) -> bool:
        with self._lock:
            return self._stopped is not None or self._left.get(step) != number

    def cover(self, seconds: float) -> None:
        """The lease is ours for so long. Raises Stopped."""
        with self._lock:
            self._may_go_on()
            self._patiently(lambda: self._keeper.cover(seconds), "asked for its lease")

    @property
    def lease(self) -> Lease:
        """Raises LeaseLost."""
        return self._keeper.lease

    def asked(self, do: Callable[[], T]) -> T:
        """Something else of the journal, with the same patience. Raises Stopped."""
        with self._lock:
            self._may_go_on()
            found: T = self._patiently(do, "asked")
            return found

    def stop(self, why: str) -> None:
        """Nothing is written any more."""
        with self._lock:
            self._stopped = self._stopped or why

    @property
    def _last(self) -> int:
        return self._events[-1].sequence if self._events else 0

    def _appending(self, event: Event) -> Callable[[], Event]:
        """Writes it once, however often it is called: an attempt that failed may have been written all the same, its
        answer lost."""
        attempts = 0

        def append() -> Event:
            nonlocal attempts
            attempts += 1
            if attempts > 1:
                for there in self._journal.events(self._id, self._last):
                    if replace(there, sequence=0) == event:
                        return there
            return self._journal.append(self._id, self._keeper.lease, event)

        return append

    def _take_in(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._incident = advance(self._incident, event)
            self._events.append(event)
            self._told(event)

    def _may_go_on(self) -> None:
        if self._stopped is None:
            self._stopped = self._keeper.lost
        if self._stopped is not None:
            raise Stopped(self._stopped)

    def _patiently(self, do: Callable[[], Any], what: str) -> Any:
        until = self._clock() + PATIENCE
        attempt = 0
        while True:
            try:
                return do()
            except LeaseLost as error:
                self._stopped = str(error) or "another runner has its lease"
                raise Stopped(self._stopped) from error
            except (JournalError, OSError) as error:
                if self._clock() >= until:
                    self._stopped = (
                        f"the journal cannot be {what} ({plain(error, 300)}), and nothing is done that it does not "
                        f"know of: mend it, then `rankmuster incident resume {self._id}`"
                    )
                    raise Stopped(self._stopped) from error
                self._pause(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1
