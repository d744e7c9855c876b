"""What a user's own watch and incident journal say of a drilled job: they are only read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rankmuster.collect.machine import Machine
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Event
from rankmuster.watch.export.state_file import NoState, StateRefused, freshness, read_state
from rankmuster.watch.progress.model import Event as WatchEvent
from rankmuster.watch.snapshot import InstanceView

POLL_SECONDS = 0.2
"""Between two looks at the state file; a watch looks once in seconds."""
ALARMS = {WatchEvent.STOPPED.value, WatchEvent.SLOW.value, WatchEvent.GONE.value, WatchEvent.LOST_SIGHT.value}
"""That must not come of a job that is well."""
TELLING = (WatchEvent.STOPPED.value, WatchEvent.GONE.value)
"""That tell a rank that was ended or frozen; `slow` and `lost sight` say that something is odd, not that."""
TELLS = (Progress.STOPPED,)
WELL = (Progress.ADVANCING, Progress.IDLE)


class NoWatch(Exception):
    """Nobody watches the job, or it is not well: a drill of it would show nothing. Says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """`at`: of the look, unix seconds. `event`: of `watch.progress.model.Event`."""

    at: float
    event: str
    words: str


@dataclass(slots=True)
class OwnWatch:
    """`state`: the folder or file of the watch's state. `alarms`: that were read so far, each once. `at`: of the
    last look that was read, unix seconds. `host`: this machine, as its watch writes it."""

    state: Path
    instance: str
    now: Callable[[], float] = time.time
    host: str = field(default_factory=lambda: Machine().hostname)
    alarms: list[Alarm] = field(default_factory=list)
    at: float = 0.0

    def view(self) -> InstanceView | None:
        """What it says now; None where it says nothing of the instance. Raises NoWatch when it does not look."""
        try:
            snapshot = read_state(self.state)
        except (NoState, StateRefused) as error:
            raise NoWatch(str(error)) from error
        if snapshot.host != self.host:
            raise NoWatch(
                f"the watch's state in {self.state} is of the machine {snapshot.host[:80]!r}, and this is "
                f"{self.host!r}: name the state of this machine's watch with --state"
            )
        fresh = freshness(snapshot, self.now())
        if fresh.stale:
            raise NoWatch(fresh.words)
        found = next((one for one in snapshot.instances if one.name == self.instance), None)
        if found is not None and snapshot.time > self.at:
            self.at = snapshot.time
            if found.event is not None and found.event in ALARMS:
                self.alarms.append(Alarm(snapshot.time, found.event, f"{found.event}: {found.reason}"))
        return found

    def must_be_well(self) -> InstanceView:
        """Raises NoWatch where the instance is not watched, or does not advance or idle."""
        view = self.view()
        if view is None:
            raise NoWatch(f"the watch says nothing of {self.instance!r}: is it watched on this node, by that name?")
        if view.state not in WELL:
            raise NoWatch(
                f"the watch says that {self.instance!r} is {view.state.value} ({view.reason}): a drill is for an "
                "instance that is well"
            )
        return view

    def until(self, there: Callable[[InstanceView | None], bool], seconds: float) -> InstanceView | None:
        """The first view of which `there` holds; None when none comes. Raises NoWatch when nobody looks any more."""
        end = time.monotonic() + seconds
        while True:
            view = self.view()
            if there(view):
                return view
            if time.monotonic() >= end:
                return None
            time.sleep(POLL_SECONDS)


@dataclass(frozen=True, slots=True)
class Told:
    """An incident of the instance, opened after the fault. `count`: of all that were. `outcome`: None while open."""

    id: str
    outcome: str | None
    events: tuple[Event, ...]
    count: int = 1


def incident_since(journal: str, instance: str, since: float) -> Told | None:
    """The first incident of that instance that was opened since (unix seconds). Raises HistoryError."""
    from rankmuster.store.journal import Journal  # needs SQLAlchemy

    with Journal.open(journal, create=False) as opened:
        heads = [head for head in opened.incidents(instance=instance, limit=20) if head.opened_at >= since]
        if not heads:
            return None
        first = heads[-1]
        outcome = first.outcome.value if first.outcome is not None else None
        return Told(first.id, outcome, opened.events(first.id), len(heads))
