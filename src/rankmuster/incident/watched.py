"""The watch's word about one instance, as a runner takes it: on its own time, and written down as it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rankmuster.incident.record import Record
from rankmuster.incident.seen import Seen
from rankmuster.incident.steady_time import SteadyTime
from rankmuster.model.incident import EventKind


class Watched:
    """`seen`: what the watch says now, None where it says nothing."""

    def __init__(self, seen: Callable[[], Seen | None], time: SteadyTime) -> None:
        self._seen, self._time = seen, time

    def now(self) -> Seen | None:
        """The watch is another process's file: whatever is wrong with it is not a runbook's trouble."""
        try:
            seen, of = self._seen(), self._time.of
            if seen is None:
                return None
            return replace(seen, at=of(seen.at), since=None if seen.since is None else of(seen.since))
        except Exception:
            return None

    def write(self, record: Record) -> None:
        """Where it has changed. Raises what `Record` raises."""
        seen = self.now()
        if seen is None or seen.at < record.incident.opening.at:
            return
        now = (seen.progress.value, seen.incarnation)
        last = next((one for one in reversed(record.events) if one.kind is EventKind.SEEN), None)
        if last is None or (last.data.get("progress"), last.data.get("incarnation")) != now:
            record.write(EventKind.SEEN, note=seen.reason, data={"progress": now[0], "incarnation": now[1]})
