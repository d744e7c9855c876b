"""RAS's lifecycle events (MONITOR, NCCL 2.29.2 and later): one connection that is held open and emptied at each poll.

A MONITOR is no STATUS: it starts no collection among the processes, so that the defects of reports do not touch it.
Still the first connection is made under the same policy as a poll.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.ras.attempts import NoAnswer
from rankmuster.collect.ras.client import Broken, Ended, Session
from rankmuster.collect.ras.namespace import NamespaceClosed
from rankmuster.collect.ras.probe import probe
from rankmuster.collect.ras.release import MONITOR_SINCE, Span
from rankmuster.evidence import ras_monitor
from rankmuster.evidence.blob import Blob
from rankmuster.model.ras import RasEvent
from rankmuster.watch.signals.ras_access import Barred, RasAccess
from rankmuster.watch.signals.ras_objects import Splitter
from rankmuster.watch.signals.ras_source import RasSource
from rankmuster.watch.signals.signal import Heard, Said
from rankmuster.watch.signals.turn import Turn

CONNECT_SECONDS = 5.0
"""For a connection and the probe: a RAS thread that runs answers within milliseconds; five processes may be tried."""

MAX_BYTES = 64 << 10
"""Read at one poll: 250 events. What is left over comes with the next; NCCL keeps it meanwhile."""

AGAIN_SECONDS = 30.0
"""The first pause before connecting anew; the process that was connected to has mostly ended then."""

_BEFORE = Span(None, MONITOR_SINCE)


class RasEventsSignal(RasSource):
    """One instance's events. `period`: seconds between two polls, which cost one read."""

    name = "ras-events"
    patience = CONNECT_SECONDS
    blind_to = (
        "processes that hang and still answer, events from before it was connected, and all events when the one "
        "process that it is connected to is frozen"
    )

    def __init__(self, access: RasAccess, period: float) -> None:
        super().__init__(access, AGAIN_SECONDS)
        self.period = period
        self._session: Session | None = None
        self._absent = False
        self._source = ""
        self._objects = Splitter()
        self._events = 0
        self._turn = Turn(self._hang_up)

    @property
    def connected(self) -> bool:
        """Whether it listens."""
        return self._session is not None

    def poll(self, deadline: Deadline) -> Iterable[Said]:
        """Events since the last poll, in order."""
        with self._turn as still_open:
            if self._begun_anew():
                self._hang_up()
                self._absent = False
            if not still_open:
                return ()
            said: list[Said] = []
            if self._session is None:
                said += self._connect(deadline.within(self.patience))
            if self._session is not None:
                said += self._drain()
            return tuple(said)

    def close(self) -> None:
        """Gives back the connection; where a poll hangs, that poll does it, by its deadline."""
        self._turn.close()

    def _hang_up(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _connect(self, until: Deadline) -> tuple[Said, ...]:
        if self._absent or not self._may_ask():
            return ()
        try:
            return self._opened(until)
        except (Barred, NamespaceClosed) as refused:
            return self._decline(str(refused))
        except NoAnswer as nobody:
            return self._fail(f"RAS was not reached for its events: {nobody}")
        except Broken as broken:
            return self._fail(f"RAS greeted, and then: {broken}")

    def _opened(self, until: Deadline) -> tuple[Said, ...]:
        way = self.access.way(until)
        if way.candidates and all(span.within(_BEFORE) for span in way.candidates):
            return self._without(f"NCCL {' or '.join(map(str, way.candidates))}")
        session = self.access.service(way).open(until)
        kept = False
        try:
            abilities = probe(session, until)
            if not abilities.monitor:
                return self._without(f"NCCL {abilities.span}")
            permission = self.access.permits(way, abilities)
            if not permission.granted:
                self._pace.failed(self.access.clock())
                return self._decline(permission.reason)
            answer = session.ask("MONITOR lifecycle", until)
            if answer != "OK":
                return self._fail(f"MONITOR was answered with {answer[:80]!r}")
            kept = True
        finally:
            if not kept:
                session.close()
        self._session, self._declined = session, None
        self._objects, self._events = Splitter(), 0
        self._source = f"ras/events-{self.access.now():.3f}-{self.access.host}.json"
        return ()

    def _without(self, who: str) -> tuple[Said, ...]:
        self._absent = True
        return self._decline(f"{who} has no MONITOR, so that there are no events (it came with {MONITOR_SINCE})")

    def _drain(self) -> tuple[Said, ...]:
        assert self._session is not None
        came = self._session.drain(MAX_BYTES)
        said: list[Said] = []
        now, unix_now = self.access.clock(), self.access.now()
        for piece in self._objects.feed(came.data):
            for event in ras_monitor.READER.read(Blob(self._source, piece)).observations:
                if isinstance(event, RasEvent):
                    self._events += 1
                    said.append(Heard(now, unix_now, replace(event, line=self._events), self.plane))
        if said:
            self._pace.went_well(now)
        if self._objects.lost:
            self._hang_up()
            said += self._fail(f"what RAS sends as events cannot be read ({self._objects.lost})")
        elif came.ended is not Ended.TIME:
            how = "was closed by its process" if came.ended is Ended.WHOLE else f"broke ({came.detail})"
            self._hang_up()
            said += self._fail(f"the stream of RAS's events {how}: the process that was connected to has ended, mostly")
        return tuple(said)
