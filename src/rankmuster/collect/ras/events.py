"""Listening to RAS's lifecycle events beside the polls (`MONITOR`, NCCL 2.29.2 and later)."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.ras.attempts import NoAnswer
from rankmuster.collect.ras.client import Broken, Ended, Service
from rankmuster.collect.ras.namespace import NamespaceClosed

MAX_EVENT_BYTES = 1 << 20
"""Some 4 000 events in JSON; a job that loses more processes in these seconds has no need of the rest."""

END_SECONDS = 1.0
"""For the listener to notice that it is no longer wanted; it looks twenty times a second."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What came. `since`: unix seconds when the service had agreed, None when it never did; `data`: events, raw.
    `note`: one short sentence for the record."""

    since: float | None
    data: bytes
    note: str


class Listener:
    """A thread with a connection of its own, from `start` until `stop`."""

    def __init__(self, service: Service, deadline: Deadline) -> None:
        self._service = service
        self._deadline = deadline
        self._wanted = threading.Event()
        self._agreed = threading.Event()  # or failed: nothing more to wait for before the first poll
        self._heard = Heard(None, b"", "it was not done by the deadline")
        self._thread = threading.Thread(target=self._listen, name="ras-events", daemon=True)

    def start(self) -> None:
        """Begins to listen, and returns when the service has agreed (or after a moment): events of the first poll
        count."""
        try:
            self._thread.start()
        except RuntimeError as error:  # the limit on threads; the polls need none
            self._heard = Heard(None, b"", str(error))
            return
        self._agreed.wait(self._deadline.within(END_SECONDS).remaining())

    def stop(self) -> Heard:
        """Ends the listening and says what came."""
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(self._deadline.within(END_SECONDS).remaining())
        return self._heard

    def _listen(self) -> None:
        try:
            with self._service.open(self._deadline) as session:
                session.ask("SET FORMAT json", self._deadline)
                answer = session.ask("MONITOR lifecycle", self._deadline)
                if answer != "OK":
                    self._heard = Heard(None, b"", f"MONITOR was answered with {answer[:80]!r}")
                    return
                since = self._service.now()
                self._agreed.set()
                heard = session.listen(self._deadline, max_bytes=MAX_EVENT_BYTES, stop=self._wanted.is_set)
            ends = {
                Ended.WHOLE: "the service closed the stream",
                Ended.TIME: "listened to the end",
                Ended.SIZE: "more events came than are kept",
                Ended.BROKEN: f"the stream broke ({heard.detail})",
            }
            self._heard = Heard(since, heard.data, ends[heard.ended])
        except (NoAnswer, NamespaceClosed, Broken) as error:
            self._heard = Heard(None, b"", str(error))
        finally:
            self._agreed.set()
