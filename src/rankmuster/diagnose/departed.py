"""Ranks that had ended when a collector looked, though nobody knows how or when, and whether that was before the rest.

One that is gone while all others of the instance live, and wait for it or still serve, went first: victims follow. It
is what RAS missing one rank alone is (`ends`). Several gone at once convict nobody, and neither does one that was alive
until a time-out. A rank that no collector listed is not known to be gone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.diagnose import engine_state, waits
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.memo import once
from rankmuster.diagnose.ras_view import absences
from rankmuster.diagnose.spin import Doing, picture
from rankmuster.model.frameworklog import EngineWatchdog
from rankmuster.model.node import NodeState, NodeTask, TaskState

ENDED = frozenset({TaskState.ZOMBIE, TaskState.DEAD, TaskState.GONE})
"""States of a process that runs no more."""
ALIVE = frozenset(TaskState) - ENDED - {TaskState.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Departed:
    """`seen`: unix seconds of the first look at which it had ended, None unknown. `code`: of a zombie, else None."""

    rank: int
    seen: float | None
    code: int | None
    source: str


@dataclass(frozen=True, slots=True)
class Watched:
    """One rank's process in the file that looked last, of several."""

    rank: int
    task: NodeTask
    source: str

    @property
    def ended(self) -> bool:
        """Whether it had ended at the last look."""
        return self.task.looks[-1].state in ENDED

    @property
    def alive(self) -> bool:
        """Whether it was known to live at the last look: a state that could not be read says neither."""
        return self.task.looks[-1].state in ALIVE

    @property
    def stands_for(self) -> tuple[bool, bool]:
        """Of several processes with one rank in one file, the greatest is that rank's: a dead one was replaced."""
        return (not self.ended, self.task.role == "worker")


@once
def watched(context: Context) -> tuple[Watched, ...]:
    """The ranks' processes as collectors on their nodes saw them, one a rank."""
    found: dict[int, Watched] = {}
    states = context.evidence.of(NodeState)
    for state in sorted(states, key=lambda state: (state.looks[-1] if state.looks else 0.0, state.source)):
        here: dict[int, Watched] = {}
        for task in state.tasks:
            rank = task.rank
            if rank is None and task.role == "worker":
                rank = context.roster.of_process(state.host, task.pid)
            if rank is not None and task.looks:
                one = Watched(rank, task, state.source)
                here[rank] = max(one, here.get(rank, one), key=lambda each: each.stands_for)
        found |= here
    return tuple(found[rank] for rank in sorted(found))


@once
def departed(context: Context) -> Mapping[int, Departed]:
    """By rank; those whose time of exit is known are not among them."""
    found: dict[int, Departed] = {}
    for each in watched(context):
        if each.ended:
            seen = next(look.time for look in each.task.looks if look.state in ENDED)
            found[each.rank] = Departed(each.rank, seen, each.task.exit_code, each.source)
    for process in context.facts.processes if context.facts is not None else ():
        if process.state in ENDED and process.rank not in found and context.facts is not None:
            found[process.rank] = Departed(
                process.rank, context.facts.last_look, process.exit_code, context.facts.source
            )
    return {rank: found[rank] for rank in sorted(found) if context.job.rank(rank).exited_at is None}


def _listed_alive(context: Context) -> frozenset[int]:
    """Ranks of which the instance's own list has a living process."""
    processes = context.facts.processes if context.facts is not None else ()
    return frozenset(process.rank for process in processes if process.state in ALIVE)


def living(context: Context, since: float | None) -> frozenset[int]:
    """Ranks that a collector saw alive at its last look, no earlier than `since` (unix seconds, None: whenever), and
    that nobody reports as ended.

    The instance's own list counts for ranks that no look tells of: it has one time for all nodes that were merged.
    """
    seen = watched(context)
    told = {each.rank for each in seen if each.alive or each.ended}
    alive = {each.rank for each in seen if each.alive and (since is None or each.task.looks[-1].time >= since)}
    alive |= _listed_alive(context) - told
    alive -= departed(context).keys()
    return frozenset(rank for rank in alive if context.job.rank(rank).exit_code is None)


@once
def first_gone(context: Context) -> Departed | None:
    """The one rank that had ended at a look that met all others alive, before any alarm, and that they wait for."""
    gone = sorted(departed(context).values(), key=lambda each: each.seen if each.seen is not None else math.inf)
    if not gone or len(context.world) < 2 or context.roster.world_size not in (None, len(context.world)):
        return None
    one = gone[0]
    # A node that was looked at well before says nothing of its ranks at that time.
    since = None if one.seen is None else one.seen - context.limits.aftershock_seconds
    there = living(context, since) | (_alive_since(context, one.seen) if one.seen is not None else frozenset())
    there -= {each.rank for each in gone if each.seen == one.seen}  # gone by the same look: none of them went first
    if not there >= frozenset(context.world) - {one.rank} or _after_an_alarm(context, one):
        return None
    return one if _missed(context, one) else None


def _alive_since(context: Context, time: float) -> frozenset[int]:
    """Ranks that a look at or after this time still met alive, whatever became of them."""
    return frozenset(
        each.rank
        for each in watched(context)
        if any(look.time >= time and look.state in ALIVE for look in each.task.looks)
    )


def unplaced_alarm(context: Context) -> bool:
    """Whether something timed out at a time that nobody knows: everything may have come after it."""
    alarmed = bool(context.timeouts) or any(not line.weak for line in context.evidence.of(EngineWatchdog))
    return alarmed and context.first_alarm is None


def _after_an_alarm(context: Context, one: Departed) -> bool:
    """Whether a time-out came before the look, or may have: victims end after it."""
    if context.first_alarm is None:
        return unplaced_alarm(context)
    return one.seen is None or context.first_alarm <= one.seen


def _missed(context: Context, one: Departed) -> bool:
    """Whether the others wait for it, or the server still serves: an instance that is taken down does neither."""
    if set(picture(context).ranks(Doing.SPINNING)) - {one.rank}:
        return True
    looks = absences(context)
    if looks and looks[-1].unresponsive == {one.rank}:
        return True
    if not context.in_motion and waits.build(context.table).waiting_for((one.rank,)) - {one.rank}:
        return True
    engine = engine_state.assess(context)
    if engine is None:
        return False
    return one.seen is None or engine.last_page >= one.seen - context.limits.stale_page_seconds
