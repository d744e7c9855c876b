"""Where the replies of RAS lie in the bundle, and under which names `diagnose` reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

from rankmuster.collect.ras.attempts import Attempt
from rankmuster.collect.ras.policy import Form
from rankmuster.collect.ras.poll import Poll, Result
from rankmuster.collect.sink import Sink, safe_name


@dataclass(frozen=True, slots=True)
class Shelf:
    """`host`: the node that was asked."""

    sink: Sink
    host: str
    _used: set[str] = field(default_factory=set, repr=False)

    def name(self, at: float, ending: str) -> str:
        """`ras/1795986513.836-node7.json`: time and node are read from there, so that a second file of one millisecond
        gets the next rather than a number behind the node."""
        while (name := f"ras/{at:.3f}-{safe_name(self.host)}{ending}") in self._used:
            at += 0.001
        self._used.add(name)
        return name

    def poll(self, poll: Poll) -> tuple[str, ...]:
        """Keeps the report as it came, and a file for every time that nobody answered; returns the paths.

        Another job's reply is not kept here (see `record`).
        """
        paths = [self.unanswered(attempt) for attempt in poll.silent]
        if poll.result is Result.REPORT and poll.reply is not None:
            ending = ".json" if poll.form is Form.JSON else ".txt"
            path = self.sink.put(self.name(poll.at, ending), poll.reply.data, look_time=poll.at, host=self.host)
            return (*paths, path)
        if poll.result is Result.REFUSED or (poll.result is Result.SILENT and not poll.silent):
            paths.append(self._error(poll.at, poll.error))
        return tuple(paths)

    def unanswered(self, attempt: Attempt) -> str:
        """A connection that nobody answered."""
        return self._error(attempt.at, attempt.error)

    def failed(self, at: float, reason: str) -> str:
        """A connection that was greeted, and broke before any request."""
        return self._error(at, f"OSError({reason!r})")

    def _error(self, at: float, error: str) -> str:
        # The form in which a plain client's exception is kept (evidence/ras_error.py).
        return self.sink.put(
            self.name(at, ".error.txt"), error.encode() + b"\n", look_time=at, host=self.host, text=True
        )
