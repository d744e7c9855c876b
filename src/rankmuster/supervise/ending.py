"""Ends every process of a group: SIGTERM to all, a grace, SIGKILL to all, until none is left or the deadline comes.

It looks again and again who is there: a group may start processes while it is being ended. Frozen processes are woken
after SIGTERM, which they would not see otherwise; SIGKILL needs no waking.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.proc_text import Stat
from rankmuster.supervise.processes import Sent

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.1
"""Seconds between two looks: most are gone in milliseconds, and a look reads all of /proc."""

MULTIPLIES = 4
"""Times as many as there were at first: no launcher starts so many to end its ranks."""
FEW = 64
"""So many are no sign of that: a script that cleans up starts some programs one after the other."""


class World(Protocol):
    """A group from where it can be ended."""

    def members(self) -> Mapping[int, Stat]:
        """Those of its processes that live, by pid; collects those that have ended. Raises OSError where it cannot be
        seen."""
        ...

    def send(self, stat: Stat, number: int) -> Sent: ...

    def pause(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Ended:
    """`left`: those that live on; `refused`: of these, those that we may not signal. `ended`: how many had been told
    to end, `killed`: how many were killed for it. `begun`: SIGKILL was sent at all."""

    left: tuple[Stat, ...]
    refused: frozenset[int]
    ended: int
    killed: int

    @property
    def gone(self) -> bool:
        """Whether nothing is left."""
        return not self.left


def end(world: World, grace: float, deadline: Deadline, hurry: Callable[[], bool] = lambda: False) -> Ended:
    """Returns by the deadline, and a look later at most. `hurry`: the grace is cut short.

    Raises OSError where nothing can be seen from the first; where it cannot later, those seen last count as living.
    """
    told: set[tuple[int, int]] = set()
    killed: set[tuple[int, int]] = set()
    refused: set[int] = set()
    living = world.members()
    mercy = deadline.within(grace)
    pause = FIRST_PAUSE
    most = max(MULTIPLIES * len(living), FEW)
    # one that answers SIGTERM with more processes is not given time for it
    while living and not mercy.passed and not hurry() and len(told) <= most:
        for stat in living.values():
            if (stat.pid, stat.start_ticks) not in told:
                told.add((stat.pid, stat.start_ticks))
                world.send(stat, signal.SIGTERM)
                if stat.stopped:
                    world.send(stat, signal.SIGCONT)
        world.pause(min(pause, mercy.remaining()))
        pause = min(pause * 2, LONGEST_PAUSE)
        living = _again(world, living)
    pause = FIRST_PAUSE
    first = True
    while living and (first or not deadline.passed):
        first = False
        for stat in living.values():
            said = world.send(stat, signal.SIGKILL)
            killed.add((stat.pid, stat.start_ticks))
            if said is Sent.REFUSED:
                refused.add(stat.pid)
        world.pause(min(pause, deadline.remaining()))
        pause = FIRST_PAUSE if len(killed) > MULTIPLIES * len(living) else min(pause * 2, LONGEST_PAUSE)
        living = _again(world, living)
    return Ended(tuple(living.values()), frozenset(refused & set(living)), len(told | killed), len(killed))


def _again(world: World, before: Mapping[int, Stat]) -> Mapping[int, Stat]:
    try:
        return world.members()
    except OSError:
        return before
