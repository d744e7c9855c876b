"""All collectors at once, none of which can hold up the bundle or spoil another's evidence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.pool import Report, Task, run
from rankmuster.collect.sink import Sink, SinkClosed, Store
from rankmuster.collect.wishes import Wishes

Work = Callable[[Scene, Sink, Deadline], Outcome]


@dataclass(frozen=True)
class Made:
    """A collector made of a function."""

    name: str
    work: Work
    budget_seconds: float = 20.0

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        return self.work(scene, sink, deadline)


def done(scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
    sink.put("done.txt", b"all of it")
    return Outcome(Ending.DONE, "one file")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "staging")


def together(
    store: Store, *tasks: Task, seconds: float = 5.0, hurry: Callable[[], bool] = lambda: False
) -> list[Report]:
    scene = Scene(None, Machine(), Wishes())
    return list(run(tasks, scene, store, Deadline.after(seconds), hurry))


def test_one_that_never_ends_is_abandoned_and_what_it_brought_is_kept(store: Store) -> None:
    forever = threading.Event()

    def stuck(scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        sink.put("half.txt", b"the first half")
        forever.wait(30)
        return Outcome(Ending.DONE, "too late")

    slow, quick = together(store, Task(Made("stuck", stuck)), Task(Made("quick", done)), seconds=0.4)
    forever.set()
    assert slow.outcome.ending is Ending.TIMED_OUT
    assert slow.files == ("half.txt",)
    assert "1 file(s) of it are kept" in slow.outcome.note
    assert quick.outcome.ending is Ending.DONE
    assert (store.folder / "half.txt").read_bytes() == b"the first half"


def test_its_own_deadline_ends_the_waiting_for_it(store: Store) -> None:
    forever = threading.Event()

    def stuck(scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        forever.wait(30)
        return Outcome(Ending.DONE, "too late")

    before = time.monotonic()
    (report,) = together(store, Task(Made("stuck", stuck, budget_seconds=0.2)), seconds=25.0)
    forever.set()
    assert report.outcome.ending is Ending.TIMED_OUT
    assert time.monotonic() - before < 20
    assert report.budget_seconds == pytest.approx(0.2)


def test_what_comes_after_the_bundle_is_closed_changes_nothing(store: Store) -> None:
    gate, answered = threading.Event(), threading.Event()
    seen: list[type[BaseException]] = []

    def late(scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        gate.wait(30)
        try:
            sink.put("late.txt", b"too late")
        except SinkClosed as error:
            seen.append(type(error))
        answered.set()
        return Outcome(Ending.DONE, "never read")

    (report,) = together(store, Task(Made("late", late)), seconds=0.2)
    pieces = store.close()
    gate.set()
    assert answered.wait(10)
    assert seen == [SinkClosed]
    assert report.outcome.ending is Ending.TIMED_OUT
    assert pieces == ()
    assert not (store.folder / "late.txt").exists()


def test_one_that_breaks_says_how_and_costs_no_other(store: Store) -> None:
    def broken(scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        raise ZeroDivisionError("rates of nothing")

    bad, good = together(store, Task(Made("bad", broken)), Task(Made("good", done)))
    assert bad.outcome.ending is Ending.FAILED
    assert "ZeroDivisionError: rates of nothing" in bad.outcome.note
    assert good.outcome.ending is Ending.DONE


def test_no_room_keeps_what_was_put_before(tmp_path: Path) -> None:
    store = Store(tmp_path / "staging", max_bytes=10)

    def large(scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        sink.put("a.txt", b"12345678")
        sink.put("b.txt", b"12345678")
        return Outcome(Ending.DONE, "both")

    (report,) = together(store, Task(Made("large", large)))
    assert report.outcome.ending is Ending.PARTIAL
    assert "no room" in report.outcome.note
    assert report.files == ("a.txt",)


def test_those_that_sample_end_when_the_others_have(store: Store) -> None:
    def sampling(scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        looks = 1
        while not scene.board.ending(0.05):
            looks += 1
        return Outcome(Ending.DONE, f"{looks} looks")

    def short(scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        threading.Event().wait(0.3)
        return Outcome(Ending.DONE, "done")

    before = time.monotonic()
    sampled, _ = together(
        store, Task(Made("samples", sampling), until_end=True), Task(Made("short", short)), seconds=60
    )
    assert sampled.outcome.ending is Ending.DONE
    assert int(sampled.outcome.note.split()[0]) >= 2
    assert time.monotonic() - before < 30


def test_a_hurry_ends_the_waiting_at_once(store: Store) -> None:
    forever, asked = threading.Event(), threading.Event()

    def stuck(scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        sink.put("half.txt", b"x")
        asked.set()
        forever.wait(30)
        return Outcome(Ending.DONE, "too late")

    before = time.monotonic()
    (report,) = together(store, Task(Made("stuck", stuck)), seconds=60, hurry=asked.is_set)
    forever.set()
    assert time.monotonic() - before < 20
    assert report.outcome.ending is Ending.TIMED_OUT
    assert report.files == ("half.txt",)
