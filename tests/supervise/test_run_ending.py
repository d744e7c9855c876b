"""The end of a group as a loop over a world that can be given any trouble."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.proc_text import Stat
from rankmuster.supervise.ending import end
from rankmuster.supervise.processes import Sent, below, lives


def one(pid: int, state: str = "S", parent: int = 1, threads: int = 1) -> Stat:
    return Stat(pid, f"p{pid}", state, parent, 0, threads, pid * 10, 0)


class World:
    """`deaf`: dies of SIGKILL alone; `immortal`: of nothing; `mothers`: have a child whenever they are looked at."""

    def __init__(self, *stats: Stat, deaf: tuple[int, ...] = (), immortal: tuple[int, ...] = ()) -> None:
        self.living = {stat.pid: stat for stat in stats}
        self.deaf, self.immortal = deaf, immortal
        self.sent: list[tuple[int, int]] = []
        self.now = 0.0
        self.blind = 0
        self.births = 0
        self.refuses: tuple[int, ...] = ()

    def clock(self) -> float:
        return self.now

    def members(self) -> Mapping[int, Stat]:
        if self.blind:
            self.blind -= 1
            raise OSError(24, "Too many open files")
        if self.births and self.living:
            self.births -= 1
            pid = max(self.living) + 1
            self.living[pid] = one(pid)
        return dict(self.living)

    def send(self, stat: Stat, number: int) -> Sent:
        self.sent.append((stat.pid, number))
        if stat.pid in self.refuses:
            return Sent.REFUSED
        dies = number == signal.SIGKILL or (number == signal.SIGTERM and stat.pid not in self.deaf)
        if dies and stat.pid not in self.immortal:
            self.living.pop(stat.pid, None)
        return Sent.SENT

    def pause(self, seconds: float) -> None:
        assert seconds >= 0.0
        self.now += max(seconds, 0.001)


def test_those_that_end_well_are_not_killed() -> None:
    world = World(one(2), one(3))
    came = end(world, 5.0, Deadline(30.0, world.clock))
    assert came.gone
    assert (came.ended, came.killed) == (2, 0)
    assert world.now < 1.0


def test_a_frozen_one_is_woken_to_hear_it() -> None:
    world = World(one(2, "T"), one(3))
    end(world, 5.0, Deadline(30.0, world.clock))
    assert world.sent == [(2, signal.SIGTERM), (2, signal.SIGCONT), (3, signal.SIGTERM)]


def test_the_deaf_are_killed_after_the_grace_and_not_before() -> None:
    world = World(one(2), one(3), deaf=(3,))
    came = end(world, 5.0, Deadline(30.0, world.clock))
    assert came.gone
    assert came.killed == 1
    assert 5.0 <= world.now < 6.0


def test_a_hurry_cuts_the_grace() -> None:
    world = World(one(3), deaf=(3,))
    came = end(world, 5.0, Deadline(30.0, world.clock), lambda: world.now > 1.0)
    assert came.gone
    assert world.now < 2.0


def test_the_deadline_holds_and_says_who_is_left() -> None:
    world = World(one(2), one(3, "D"), deaf=(3,), immortal=(3,))
    came = end(world, 5.0, Deadline(30.0, world.clock))
    assert [stat.pid for stat in came.left] == [3]
    assert 30.0 <= world.now < 30.2


def test_a_deadline_that_has_passed_still_kills_once() -> None:
    world = World(one(2))
    came = end(world, 5.0, Deadline(-1.0, world.clock))
    assert came.gone


def test_those_born_meanwhile_are_ended_too() -> None:
    world = World(one(2), deaf=(2,))
    world.births = 40
    came = end(world, 1.0, Deadline(30.0, world.clock))
    assert came.gone


def test_one_that_may_not_be_signalled_is_named() -> None:
    world = World(one(2))
    world.refuses = (2,)
    came = end(world, 1.0, Deadline(3.0, world.clock))
    assert came.refused == {2}


def test_that_nothing_is_seen_is_not_taken_for_that_nothing_is_there() -> None:
    world = World(one(2), immortal=(2,))

    class Blinded(World):
        def members(self) -> Mapping[int, Stat]:
            found = super().members()
            self.blind = 10**9
            return found

    blinded = Blinded(one(2))
    assert [stat.pid for stat in end(blinded, 0.5, Deadline(2.0, blinded.clock)).left] == [2]
    world.blind = 1
    with pytest.raises(OSError, match="Too many"):
        end(world, 0.5, Deadline(2.0, world.clock))


def test_a_first_thread_that_has_exited_is_not_the_end_of_a_process() -> None:
    assert lives(one(2, "Z", threads=2))
    assert not lives(one(2, "Z", threads=1))


def test_descent_ends_at_strangers_and_in_circles() -> None:
    listed = {pid: one(pid, parent=parent) for pid, parent in ((2, 1), (3, 2), (4, 3), (5, 2), (6, 5), (7, 8), (8, 7))}
    assert set(below(listed, (1,))) == {2, 3, 4, 5, 6}
    assert set(below(listed, (1,), {5})) == {2, 3, 4}
    assert set(below(listed, (7,))) == {8, 7}


def test_one_that_answers_with_more_is_not_given_the_whole_grace() -> None:
    """Each SIGTERM makes two more, so that a grace of 5 s would make more than any host has room for."""
    world = World(one(2), deaf=tuple(range(2, 100_000)))
    ordinary = world.send

    def send(stat: Stat, number: int) -> Sent:
        if number == signal.SIGTERM:
            for _ in range(2):
                pid = max(world.living) + 1
                world.living[pid] = one(pid)
        return ordinary(stat, number)

    world.send = send  # type: ignore[method-assign]
    came = end(world, 5.0, Deadline.after(30.0, world.clock))
    assert came.gone
    assert came.ended < 1_000
    assert world.now < 5.0
