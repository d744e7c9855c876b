"""Threads of signals: one that hangs holds up nobody, and one that breaks down is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.model.plane import Plane
from rankmuster.watch import runner as runners
from rankmuster.watch.runner import Crew
from rankmuster.watch.signals.signal import Failed, Heard, Said


@dataclass
class Source:
    """A signal that does as it is told."""

    name: str
    does: Callable[[Deadline], Iterable[Said]]
    plane: Plane = Plane.ENGINE
    period: float = 1.0
    blind_to: str = "nothing"
    closed: threading.Event = field(default_factory=threading.Event)
    polls: int = 0

    def poll(self, deadline: Deadline) -> Iterable[Said]:
        self.polls += 1
        return self.does(deadline)

    def close(self) -> None:
        self.closed.set()


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def says(text: str) -> Callable[[Deadline], Iterable[Said]]:
    return lambda deadline: [Heard(deadline.clock(), 0.0, text)]


@pytest.fixture
def awake() -> threading.Event:
    return threading.Event()


def test_what_answers_at_once_is_there_for_the_look(awake: threading.Event) -> None:
    crew = Crew(time.monotonic)
    crew.set("a", [Source("engine", says("page"))])
    crew.poll(0.0, 5.0, awake)
    assert [(owner, said.observation) for owner, said in crew.drain(time.monotonic()) if isinstance(said, Heard)] == [
        ("a", "page")
    ]
    crew.close()


def test_a_signal_that_hangs_holds_up_no_other_and_is_told_as_silent(awake: threading.Event) -> None:
    clock, free = Time(), threading.Event()

    def hangs(_: Deadline) -> Iterable[Said]:
        free.wait(30)
        return []

    hanging = Source("nvml", hangs, plane=Plane.HARDWARE)
    crew = Crew(clock)
    crew.set("a", [hanging, Source("engine", says("page"))])
    began = time.monotonic()
    awake.set()  # the grace is over at once: the clock of the test stands still
    crew.poll(0.0, 0.05, awake)
    assert time.monotonic() - began < 10
    _until(lambda: [said for _, said in crew.drain(clock.now)])
    clock.now += 60
    assert not [said for _, said in crew.drain(clock.now) if isinstance(said, Heard)]
    told = [said for _, said in crew.drain(clock.now) if isinstance(said, Failed)]
    assert [one.plane for one in told] == [Plane.HARDWARE]
    assert "has not come back" in told[0].reason
    crew.poll(0.0, 0.0, awake)
    assert hanging.polls == 1  # never a second one beside the first
    free.set()
    crew.close()
    assert hanging.closed.is_set()


def _until(found: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not found() and time.monotonic() < end:
        time.sleep(0.01)


def test_a_signal_that_breaks_down_is_told_and_asked_again(awake: threading.Event) -> None:
    def breaks(_: Deadline) -> Iterable[Said]:
        raise ValueError("of all things")

    clock = Time()
    source = Source("ras", breaks, plane=Plane.RAS)
    crew = Crew(clock)
    crew.set("a", [source])
    crew.poll(0.0, 5.0, awake)
    (told,) = [said for _, said in crew.drain(clock.now)]
    assert isinstance(told, Failed)
    assert "of all things" in told.reason
    assert told.plane is Plane.RAS
    clock.now += 1.0
    crew.poll(0.0, 5.0, awake)
    assert source.polls == 2
    crew.close()


def test_polls_come_once_a_period_and_delays_do_not_add_up(awake: threading.Event) -> None:
    clock = Time()
    source = Source("engine", says("page"), period=5.0)
    crew = Crew(clock)
    crew.set("a", [source])
    polled = []
    for step in range(30):
        clock.now = 1000.0 + step * 1.0
        before = source.polls
        crew.poll(0.4, 5.0, awake)
        if source.polls > before:
            polled.append(step)
    assert polled == [0, 5, 10, 15, 20, 25]
    clock.now += 3600  # the machine slept
    crew.poll(0.4, 5.0, awake)
    clock.now += 1.0
    crew.poll(0.4, 5.0, awake)
    assert source.polls == 7
    crew.close()


def test_a_signal_that_floods_costs_bounded_memory_and_the_loss_is_counted(
    awake: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "MOST_HELD", 100)
    crew = Crew(time.monotonic)
    crew.set("a", [Source("log", lambda d: (Heard(d.clock(), 0.0, number) for number in range(5000)))])
    crew.poll(0.0, 5.0, awake)
    said = [one.observation for _, one in crew.drain(time.monotonic()) if isinstance(one, Heard)]
    assert said == list(range(4900, 5000))
    crew.close()


def test_signals_of_another_incarnation_replace_those_of_the_one_before(awake: threading.Event) -> None:
    old, new = Source("engine", says("old")), Source("engine", says("new"))
    crew = Crew(time.monotonic)
    crew.set("a", [old])
    crew.set("a", [new])
    assert old.closed.is_set()
    crew.poll(0.0, 5.0, awake)
    assert [one.observation for _, one in crew.drain(time.monotonic()) if isinstance(one, Heard)] == ["new"]
    crew.close()
