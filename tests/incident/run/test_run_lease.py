"""Two runners never work on one instance, and one that lost its right, or its journal, stops where it stands."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from incident_world import INSTANCE, opening
from rankmuster.incident import record
from rankmuster.incident.lease_keeper import LeaseKeeper
from rankmuster.incident.runner import Stopped, Taken
from rankmuster.model.incident import EventKind, Outcome, Step
from rankmuster.store.errors import HistoryError, LeaseLost
from run_incident import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_second_runner_is_told_who_has_it_and_does_nothing(rig: Rig) -> None:
    with rig.journal() as journal:
        name = rig.runner(journal).open(opening())
        assert journal.take_lease(INSTANCE, "b", 60) is not None

        with pytest.raises(Taken, match="b"):
            rig.runner(journal).run(name)

        assert [one.kind for one in journal.events(name)] == [EventKind.OPENED]
    assert rig.world.state["order"] == []


def test_two_runners_at_once_rebuild_it_once(rig: Rig) -> None:
    with rig.journal() as journal:
        name = rig.runner(journal).open(opening())
        ended: list[Any] = []

        def run(holder: str) -> None:
            try:
                ended.append(rig.runner(journal, holder=holder).run(name).closed)
            except Taken as error:
                ended.append(error)

        threads = [threading.Thread(target=run, args=(holder,)) for holder in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert Outcome.RECOVERED in ended
    assert rig.world.state["starts"] == ["inc-2"]
    assert rig.world.state["terminated"] == ["inc-1"]


def test_a_runner_whose_lease_another_one_has_by_now_does_nothing_more(rig: Rig) -> None:
    """Its holder's name is used twice, which no service does: the newer token is the right one."""
    with rig.journal() as journal:

        def told(event: Any) -> None:
            if event.kind is EventKind.STEP_ENDED and event.step is Step.STOP_TRAFFIC:
                assert journal.take_lease(INSTANCE, "a", 60) is not None

        runner = rig.runner(journal, told=told)
        name = runner.open(opening())
        with pytest.raises(Stopped, match="no longer its own"):
            runner.run(name)

    assert rig.world.state["terminated"] == []


def test_without_its_journal_nothing_is_done_and_it_goes_on_once_it_is_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "PATIENCE", 0.5)
    with rig.journal() as journal:

        class Away:
            """A database that goes away once evidence has been taken."""

            gone = False

            def __getattr__(self, name: str) -> Any:
                real = getattr(journal, name)

                def called(*arguments: Any, **named: Any) -> Any:
                    if self.gone:
                        raise HistoryError("the server closed the connection")
                    return real(*arguments, **named)

                return called

        away = Away()

        def told(event: Any) -> None:
            if event.kind is EventKind.STEP_ENDED and event.step is Step.EVIDENCE:
                away.gone = True

        runner = rig.runner(away, told=told)
        name = runner.open(opening())
        with pytest.raises(Stopped, match="incident resume"):
            runner.run(name)
        assert rig.world.state["terminated"] == []

        away.gone = False
        assert rig.runner(journal, holder="a").run(name).closed is Outcome.RECOVERED
    assert rig.world.state["starts"] == ["inc-2"]


def test_a_journal_that_is_away_for_a_moment_changes_nothing(rig: Rig) -> None:
    with rig.journal() as journal:

        class Flickers:
            """Every fourth write fails, half of those after it was written."""

            count = 0

            def __getattr__(self, name: str) -> Any:
                return getattr(journal, name)

            def append(self, *arguments: Any) -> Any:
                self.count += 1
                if self.count % 8 == 3:
                    raise HistoryError("busy")
                written = journal.append(*arguments)
                if self.count % 8 == 7:
                    raise HistoryError("its answer was lost")
                return written

        runner = rig.runner(Flickers())
        name = runner.open(opening())
        assert runner.run(name).closed is Outcome.RECOVERED
        events = journal.events(name)

    assert [one.sequence for one in events] == list(range(1, len(events) + 1))
    assert rig.world.state["starts"] == ["inc-2"]


def test_a_lease_that_cannot_be_renewed_is_lost_by_our_own_clock(rig: Rig) -> None:
    now = [0.0]
    with rig.journal() as journal:
        keeper = LeaseKeeper(journal, INSTANCE, "a", lambda: now[0], seconds=30.0)
        assert keeper.take()
        assert keeper.lease.holder == "a"
        now[0] = 31.0

        assert "could not be renewed" in str(keeper.lost)
        with pytest.raises(LeaseLost):
            _ = keeper.lease
        with pytest.raises(LeaseLost):
            keeper.cover(1.0)
        keeper.close()


def test_a_runner_that_is_stopped_leaves_no_action_without_its_result(rig: Rig) -> None:
    with rig.journal() as journal:
        runner = rig.runner(journal)

        def told(event: Any) -> None:
            if event.kind is EventKind.INTENT and event.step is Step.TERMINATE:
                runner.stop()

        runner = rig.runner(journal, told=told)
        name = runner.open(opening())
        assert runner.run(name).closed is None
        events = journal.events(name)
        intents = {(one.step, one.action) for one in events if one.kind is EventKind.INTENT}
        assert intents == {(one.step, one.action) for one in events if one.kind is EventKind.RESULT}

        assert rig.runner(journal).run(name).closed is Outcome.RECOVERED
    assert rig.world.state["terminated"] == ["inc-1"]
