"""A user's own running job as the target of a drill: found as `collect` finds it, allowed by itself, hit by one signal.

Whoever starts the job allows it, by a variable in the environment of every process: MARKER=<instance>. Without it, with
another instance's name in it, or where anything is in doubt, nothing is sent.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.search import Request
from rankmuster.collect.look_for import Ambiguous, look_for
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import ProcessOfInstance, Target

MARKER = "RANKMUSTER_DRILL_ALLOWED"
"""Variable that allows drills of the instance whose name is its value."""
FIND_SECONDS = 20.0
"""To find the instance, as `collect` has it."""
SHOWN = 8
"""Processes that a message names."""


class NotAllowedHere(Exception):
    """The job is no target of a drill; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Victim:
    """The one process that is hit. (pid, start_ticks) never names another one."""

    instance: str
    rank: int
    pid: int
    start_ticks: int
    name: str
    ranks: int
    pids: tuple[int, ...]


def victim_of(name: str, rank: int | None, machine: Machine | None = None, *, now: float | None = None) -> Victim:
    """The process of rank `rank` (None: the last but one) of the instance `name`. Raises NotAllowedHere."""
    here = machine if machine is not None else Machine()
    at = time.time() if now is None else now
    try:
        sought = look_for(here, Request(instance=name), now=at, deadline=Deadline.after(FIND_SECONDS))
    except Ambiguous as error:
        raise NotAllowedHere(f"a drill hits one instance, and {error}") from error
    if sought.target is None:
        why = "; ".join(sought.notes) or "no process of it was found"
        raise NotAllowedHere(f"there is no instance {name!r} on this node: {why}")
    check(sought.target, os.geteuid())
    return _chosen(sought.target, rank)


def check(target: Target, uid: int) -> None:
    """Raises NotAllowedHere where a process of it is another user's, or does not allow drills of this instance.

    What each allows was read from its own environment when the instance was found, moments ago.
    """
    others = [one for one in target.processes if one.uid != uid]
    if others:
        raise NotAllowedHere(
            f"{_pids(others)} of {target.name!r} belong to user {others[0].uid}, and this is user {uid}: run the drill "
            "as the user whose job it is"
        )
    allowed = {one.pid: one.environ.get(MARKER, "") for one in target.processes}
    strange = [one for one in target.processes if allowed[one.pid] not in ("", target.name)]
    if strange:
        named = allowed[strange[0].pid][:80]
        raise NotAllowedHere(
            f"{_pids(strange)} of {target.name!r} allow drills of {named!r}, another instance: a marker that was "
            f"inherited allows nothing; start the job with {MARKER}={target.name}"
        )
    bare = [one for one in target.processes if not allowed[one.pid]]
    if bare:
        raise NotAllowedHere(
            f"{_pids(bare)} of {target.name!r} have no {MARKER} in their environment, or one that cannot be read: "
            f"start the job with {MARKER}={target.name}; where engines write titles over their environment, with "
            "SPT_NOENV=1 too"
        )


def _chosen(target: Target, rank: int | None) -> Victim:
    known = sorted({one.rank for one in target.workers if one.rank is not None})
    if not known:
        raise NotAllowedHere(
            f"no process of {target.name!r} says which rank it is (RANK in its environment, or an engine's title): "
            "nobody could say afterwards whether the right one was named"
        )
    wanted = known[max(len(known) - 2, 0)] if rank is None else rank
    of_it = [one for one in target.workers if one.rank == wanted]
    if len(of_it) != 1:
        there = ", ".join(map(str, known))
        what = f"{len(of_it)} processes say that they are rank {wanted}" if of_it else f"there is no rank {wanted} here"
        raise NotAllowedHere(f"{what}; ranks of {target.name!r} on this node: {there}")
    one = of_it[0]
    pids = tuple(process.pid for process in target.processes)
    return Victim(target.name, wanted, one.pid, one.start_ticks, one.name, target.world_size or len(known), pids)


def _pids(processes: list[ProcessOfInstance]) -> str:
    shown = ", ".join(str(one.pid) for one in processes[:SHOWN])
    more = f" and {len(processes) - SHOWN} more" if len(processes) > SHOWN else ""
    return f"process(es) {shown}{more}"


@dataclass
class Held:
    """The victim by a descriptor of the kernel's: a signal through it reaches this process or nobody, whatever becomes
    of its number. To be used in a `with`; what was stopped and still stands is let go on at its end."""

    victim: Victim
    proc: Path = Path("/proc")
    _descriptor: int = -1
    _stopped: bool = False

    def __enter__(self) -> Held:
        """Raises NotAllowedHere when the process has ended, or is another one by now."""
        victim = self.victim
        try:
            self._descriptor = os.pidfd_open(victim.pid)
        except OSError as error:
            raise NotAllowedHere(
                f"pid {victim.pid} cannot be held ({error.strerror or error}): it has ended"
            ) from error
        try:
            self._same()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.resume()
        finally:
            os.close(self._descriptor)

    def send(self, number: int) -> float:
        """The signal, to this process alone. When it was sent, unix seconds. Raises NotAllowedHere when it is gone."""
        at = time.time()
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except OSError as error:
            why = error.strerror or str(error)
            raise NotAllowedHere(f"signal {number} could not be sent to pid {self.victim.pid} ({why})") from error
        self._stopped = self._stopped or number == signal.SIGSTOP
        return at

    def resume(self) -> None:
        """SIGCONT where it was stopped by us; of one that has ended by now, nothing."""
        if self._stopped:
            with suppress(OSError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGCONT)
            self._stopped = False

    def _same(self) -> None:
        """Looked at after it is held: what is seen now is what the descriptor stands for."""
        try:
            stat = Proc(self.proc).stat(self.victim.pid)
        except (NotAllowed, OSError):
            stat = None
        if stat is None or stat.start_ticks != self.victim.start_ticks:
            raise NotAllowedHere(f"pid {self.victim.pid} is another process by now: nothing was sent")
