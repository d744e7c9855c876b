"""The service: what the watch says becomes an incident that is run, and what was left open is taken up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from incident_world import INSTANCE, opening
from rankmuster.incident.follow import Followed, Follower
from rankmuster.incident.serve import Served, Service, newest_of
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Event, EventKind, IncidentHead, Outcome
from rankmuster.store.errors import HistoryError
from rankmuster.store.journal import Journal
from rankmuster.watch.export.state_file import StateFile
from rankmuster.watch.snapshot import InstanceView, Snapshot, WatcherView
from run_incident import Rig

PATIENCE = 40.0


@dataclass
class Scene:
    """A service over a world whose watch says what it is told to."""

    rig: Rig
    journal: Journal
    said: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.file = StateFile(self.rig.folder)
        tools = self.rig.world.tools()
        self.follower = Follower(
            self.rig.folder,
            {INSTANCE: Followed(tools.group)},
            newest_of(self.journal),
            clock=time.monotonic,
            unix_now=time.time,
            host="n1",
        )
        self.runner = self.rig.runner(self.journal, tools, holder="n1:serve", lease_seconds=3.0)
        self.service = Service(
            Served({INSTANCE: self.runner}, self.follower, self.journal), "n1:serve", time.monotonic, self.said.append
        )

    def watch(self, state: Progress, since: float | None = None) -> None:
        look = self.rig.world.tools().group
        incarnation = None if look is None else "whatever the watch calls it"
        now = time.time()
        view = InstanceView(INSTANCE, state, now - 10 if since is None else since, "why", incarnation=incarnation)
        self.file.write(Snapshot("n1", now, WatcherView("0.1", now - 100, 5.0), (view,)))

    def heads(self) -> tuple[IncidentHead, ...]:
        return self.journal.incidents()

    def until(self, count: int) -> None:
        """Until so many incidents are closed."""
        end = time.monotonic() + PATIENCE
        while sum(one.closed_at is not None for one in self.heads()) < count:
            assert time.monotonic() < end, (self.heads(), self.said)
            time.sleep(0.05)


def _raises(error: Exception) -> Callable[..., Any]:
    def called(*_: object, **__: object) -> Any:
        raise error

    return called


@contextmanager
def scene(tmp_path: Path) -> Iterator[Scene]:
    rig = Rig(tmp_path)
    with rig.journal() as journal:
        made = Scene(rig, journal)
        thread = threading.Thread(target=made.service.run, args=(made.stop,))
        yield_from = made
        thread.start()
        try:
            yield yield_from
        finally:
            made.stop.set()
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_a_stop_is_handled_once_and_the_instance_serves_again(tmp_path: Path) -> None:
    with scene(tmp_path) as made:
        made.watch(Progress.STOPPED)
        made.until(1)
        # the watch goes on saying so for a while: it is the same stop
        time.sleep(1.0)
        [head] = made.heads()
        assert head.outcome is Outcome.RECOVERED, made.said
    assert any("stopped: why" in one for one in made.said)
    assert any("closed: recovered" in one for one in made.said)


def test_what_an_earlier_service_left_open_is_taken_up(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with rig.journal() as journal:
        incident, _ = journal.open_incident(opening(), "n1:serve")
    with scene(tmp_path) as made:
        made.until(1)
        [head] = made.heads()
        assert head.id == incident
        kinds = [one.kind for one in made.journal.events(incident)]
        assert kinds.count(EventKind.CLOSED) == 1


def test_a_closed_incident_that_an_operator_resumes_is_taken_up(tmp_path: Path) -> None:
    with Rig(tmp_path).journal() as journal:
        name, _ = journal.open_incident(opening(), "n1:serve")
        journal.tell(name, Event(kind=EventKind.ABORTED, at=time.time(), by="me", note="mine"))
    with scene(tmp_path) as made:
        made.until(1)
        assert made.heads()[0].outcome is Outcome.ABORTED
        made.journal.tell(name, Event(kind=EventKind.REOPENED, at=time.time(), by="me"))
        end = time.monotonic() + PATIENCE
        while made.heads()[0].outcome is not Outcome.RECOVERED:
            assert time.monotonic() < end, (made.heads(), made.said)
            time.sleep(0.05)


def test_a_journal_that_is_away_for_long_is_said_once(tmp_path: Path) -> None:
    away: Any = SimpleNamespace(incidents=_raises(HistoryError("the server closed the connection")))
    rig = Rig(tmp_path)
    with rig.journal() as journal:
        made = Scene(rig, journal)
        served = Served({INSTANCE: made.runner}, made.follower, away)
        made.service = Service(served, "a", time.monotonic, made.said.append)
        for _ in range(3):
            made.service._looked = float("-inf")
            made.service.turn()
    assert len([one for one in made.said if one.startswith("the journal does not answer")]) == 1


def test_a_fault_in_following_one_is_said_and_the_service_goes_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    with rig.journal() as journal:
        made = Scene(rig, journal)
        made.follower._newest = _raises(ValueError("a fault of ours"))
        made.watch(Progress.STOPPED)
        made.service.turn()
        made.service.turn()
    assert len([one for one in made.said if "a fault of ours" in one]) == 1


def test_a_journal_that_does_not_answer_is_said_once_and_the_service_goes_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with rig.journal() as journal:
        made = Scene(rig, journal)
        made.watch(Progress.STOPPED)
        (tmp_path / "journal.db").rename(tmp_path / "away.db")
        (tmp_path / "journal.db").write_bytes(b"no database at all" * 100)
        for name in ("journal.db-wal", "journal.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        with Journal.open(str(tmp_path / "away.db")) as other:
            other.incidents()
        made.service._looked = float("-inf")
        made.service.turn()
        made.service.turn()
    assert len([one for one in made.said if one.startswith("the journal does not answer")]) <= 1


def test_a_watch_that_is_away_is_said_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with rig.journal() as journal:
        made = Scene(rig, journal)
        made.service.turn()
        made.service.turn()
    assert len(made.said) == 1
    assert "--watch" in made.said[0]
    assert "--state" not in made.said[0]


def test_an_incident_that_another_service_opened_is_told_to_nobody_as_new(tmp_path: Path) -> None:
    """Both see the stop, one opens the incident: people are called once."""
    rig = Rig(tmp_path)
    with rig.journal() as journal:
        made = Scene(rig, journal)
        assert journal.take_lease(INSTANCE, "n2:serve", 60.0) is not None
        journal.open_incident(opening(), "n2:serve")
        made.service._open(opening())
        thread = made.service._work[INSTANCE].thread
        assert thread is not None
        thread.join(PATIENCE)
    assert [one for one in made.said if "another runner has" not in one] == []


def test_another_runner_that_has_it_is_said_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with rig.journal() as journal:
        made = Scene(rig, journal)
        journal.open_incident(opening(), "n2:serve")
        assert journal.take_lease(INSTANCE, "n2:serve", 60.0) is not None
        for _ in range(3):
            made.service._looked = float("-inf")
            for work in made.service._work.values():
                work.not_before = float("-inf")
            made.service.turn()
            thread = made.service._work[INSTANCE].thread
            assert thread is not None
            thread.join(PATIENCE)
    assert len([one for one in made.said if "another runner has" in one]) == 1, made.said


def test_an_opening_that_takes_long_does_not_keep_another_instance_waiting(tmp_path: Path) -> None:
    """Before an incident is opened its group is looked at: of many that stop at once, none waits for another's look."""
    entered, both = [], threading.Barrier(2)

    def opens(given: Any) -> str:
        entered.append(given.instance)
        both.wait(PATIENCE)  # in turn, the first would never see the second
        raise HistoryError("that is all")

    rig = Rig(tmp_path)
    with rig.journal() as journal:
        runners: Any = {one: SimpleNamespace(open=opens) for one in ("a", "b")}
        openings = [replace(opening(), instance=one) for one in ("a", "b")]
        follows: Any = SimpleNamespace(problem=None, poll=lambda: openings)
        said: list[str] = []
        service = Service(Served(runners, follows, journal), "n1:serve", time.monotonic, said.append)
        turn = threading.Thread(target=service.turn, daemon=True)
        turn.start()
        turn.join(PATIENCE / 2)
        assert not turn.is_alive()
        end = time.monotonic() + PATIENCE
        while len(said) < 2:
            assert time.monotonic() < end, said
            time.sleep(0.01)
    assert sorted(entered) == ["a", "b"]
    assert sorted(one.split(":")[0] for one in said) == ["a", "b"]
