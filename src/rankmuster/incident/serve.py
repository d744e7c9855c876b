"""The service of one node: follows the watch, opens incidents, runs them, and takes up what an earlier runner left.

One thread an instance that has an incident; nothing of one instance holds another one up. What happens is the
journal's: this keeps nothing that a crash could lose.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rankmuster.collect.deadline import Clock
from rankmuster.incident.journal import Journal
from rankmuster.incident.machine.state import Incident
from rankmuster.incident.notices import Notices
from rankmuster.incident.runner import Refused, Runner, Stopped, Taken
from rankmuster.model.incident import EventKind, IncidentHead, Opening
from rankmuster.store.errors import HistoryError

POLL_SECONDS = 0.25
"""Between two looks at the state file and at supervisors; the watch looks every 5 s."""

OPEN_SECONDS = 1.0
"""Between two looks into the journal for incidents that are open and that nobody here works on: one query."""

AGAIN_SECONDS = 5.0
"""After a runner that could not go on (another one has it, the journal is away, a fault of ours): not in a hot loop."""

END_SECONDS = 10.0
"""For runners to come to a point at which they may stop, when the service ends: an action under way is bounded by its
own deadline, and what it leaves is settled by the next runner."""


@dataclass
class _Work:
    thread: threading.Thread | None = None
    not_before: float = 0.0
    said: str = ""


class Follows(Protocol):
    """How incidents come in. `problem`: why nothing can be seen at all, None where that is not so."""

    problem: str | None

    def poll(self) -> Iterable[Opening]:
        """What an incident has to be opened for, each once. Returns at once; raises nothing for expected trouble."""
        ...


@dataclass(frozen=True, slots=True)
class Served:
    """What the service works with: one runner an instance, and how incidents come in. `current`: the incident that each
    runner works on, for whoever is told of its events."""

    runners: Mapping[str, Runner]
    follower: Follows
    journal: Journal
    notices: Notices | None = None
    current: dict[str, str] = field(default_factory=dict)


@dataclass
class Service:
    """`say`: one line for the log. `clock`: monotonic seconds. `holder`: this service's name, in the journal."""

    served: Served
    holder: str
    clock: Clock
    say: Callable[[str], None]
    _work: dict[str, _Work] = field(default_factory=dict)
    _looked: float = float("-inf")
    _problems: dict[str, str] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set. Raises nothing for expected trouble."""
        try:
            while not stop.is_set():
                self.turn()
                stop.wait(POLL_SECONDS)
        finally:
            self._end()

    def turn(self) -> None:
        """One look at everything; what is to be done begins in threads."""
        try:
            for opening in self.served.follower.poll():
                if self._free(opening.instance):
                    self._open(opening)
            self._tell_problem("watch", self.served.follower.problem or "")
            if self.clock() - self._looked >= OPEN_SECONDS:
                self._looked = self.clock()
                for head in self.served.journal.incidents(open_only=True):
                    if head.instance in self.served.runners and self._free(head.instance):
                        self._begin(head.instance, head.id)
                self._tell_problem("journal", "")
            self._tell_problem("ours", "")
        except HistoryError as error:
            said = f"the journal does not answer, and nothing can be done without it: {error}"
            self._tell_problem("journal", said)
        except Exception as error:  # of one instance: the others are to be followed all the same
            self._tell_problem("ours", f"internal error: {_told(error)}")

    def _free(self, instance: str) -> bool:
        work = self._work.setdefault(instance, _Work())
        busy = work.thread is not None and work.thread.is_alive()
        return not busy and self.clock() >= work.not_before

    def _open(self, opening: Opening) -> None:
        """In a thread as well: before it is opened its group is looked at, and of two hundred at once the last must not
        wait for the looks of all others."""
        self._thread(opening.instance, self._opened, (opening,), "what has stopped")

    def _opened(self, opening: Opening) -> None:
        try:
            incident = self.served.runners[opening.instance].open(opening)
            ours = opened_by(self.served.journal, incident) == self.holder
        except (Refused, KeyError) as error:
            self._later(opening.instance, f"{opening.instance}: no incident was opened: {error}")
            return
        except HistoryError as error:
            self._later(opening.instance, f"{opening.instance}: no incident was opened, and nothing is done: {error}")
            return
        except Exception as error:  # a thread's own end would be seen by nobody
            said = f"{opening.instance}: no incident was opened: internal error: {_told(error)}"
            self._later(opening.instance, said, seconds=6 * AGAIN_SECONDS)
            return
        if ours:
            self.say(f"{opening.instance}: incident {incident}: {opening.by.value}: {opening.reason}")
        if ours and self.served.notices is not None:
            self.served.notices.opened(incident, opening.instance, opening.reason, opening.at)
        self.served.current[opening.instance] = incident
        self._drive(opening.instance, incident)

    def _begin(self, instance: str, incident: str) -> None:
        self.served.current[instance] = incident
        self._thread(instance, self._drive, (instance, incident), f"incident {incident}")

    def _thread(self, instance: str, work: Callable[..., None], given: tuple[object, ...], what: str) -> None:
        one = self._work.setdefault(instance, _Work())
        thread = threading.Thread(target=work, args=given, name=f"incident-{instance}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._later(instance, f"{instance}: no thread could be started for {what} ({error})")
            return
        one.thread = thread

    def _drive(self, instance: str, incident: str) -> None:
        try:
            ended = self.served.runners[instance].run(incident)
            if ended.closed is not None:
                self._later(instance, f"{instance}: incident {incident} closed: {words(ended)}", seconds=0.0)
        except (Taken, Stopped, Refused, HistoryError) as error:
            self._later(instance, f"{instance}: incident {incident}: {error}")
        except Exception as error:  # a fault of ours must be seen, and must not end the service
            said = f"{instance}: incident {incident}: internal error: {_told(error)}"
            self._later(instance, said, seconds=6 * AGAIN_SECONDS)

    def _later(self, instance: str, said: str, seconds: float = AGAIN_SECONDS) -> None:
        work = self._work.setdefault(instance, _Work())
        work.not_before = self.clock() + seconds
        if said != work.said:
            self.say(said)
        work.said = said

    def _tell_problem(self, of: str, problem: str) -> None:
        """Once, until it is another one or none."""
        problem = problem.replace("with --state", "with --watch")  # as `top` calls it, and as it is called here
        # an age of the watch changes every second: the words before it do not
        kind = problem.partition(":")[0].partition(" for ")[0]
        if problem and kind != self._problems.get(of):
            self.say(problem)
        self._problems[of] = kind

    def _end(self) -> None:
        for runner in self.served.runners.values():
            runner.stop()
        end = self.clock() + END_SECONDS
        for work in self._work.values():
            if work.thread is not None:
                work.thread.join(max(end - self.clock(), 0.0))
        if self.served.notices is not None:
            self.served.notices.close(1.0)


def _told(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"


def words(incident: Incident) -> str:
    """How it was closed, for the log."""
    outcome = incident.closed.value if incident.closed is not None else "open"
    last = incident.recent[-1].note if incident.recent else ""
    return f"{outcome}: {last}" if last else outcome


def opened_by(journal: Journal, incident: str) -> str:
    """Who opened it: whoever meets an incident that is open goes on with it, and tells nobody that it is new."""
    return next((event.by for event in journal.events(incident) if event.kind is EventKind.OPENED), "")


def newest_of(journal: Journal) -> Callable[[str], IncidentHead | None]:
    """The newest incident of an instance that has to do with a stop, for the follower."""

    def newest(instance: str) -> IncidentHead | None:
        return next(iter(journal.incidents(instance=instance, limit=1)), None)

    return newest
