"""A user's own running job as the target of a drill: found as `collect` finds it, allowed by itself, hit by one signal.

Whoever starts the job allows it, by a variable in the environment of every process: ALLOWED=<instance>. Without it,
with another instance's name in it, or where anything is in doubt, nothing is sent. What a process allows stands in its
own /proc/PID/environ and nowhere else: what the finder knows of a process may be its parent's.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rankmuster.collect.bounded import all_within
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.search import Request
from rankmuster.collect.look_for import Ambiguous, look_for
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import ProcessOfInstance, Target
from rankmuster.drill.apart import ALLOWED

FIND_SECONDS = 20.0
"""To find the instance, as `collect` has it."""
READ_SECONDS = 5.0
"""To read what all processes say; one that is stuck in a driver may never let its environment be read."""
SHOWN = 8
"""Processes that a message names."""


class NotAllowedHere(Exception):
    """The job is no target of a drill; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Victim:
    """The one process that is hit. (pid, start_ticks) never names another one; `executable` and `command` tell
    whether it is still the same program."""

    instance: str
    rank: int
    pid: int
    start_ticks: int
    name: str
    ranks: int
    pids: tuple[int, ...]
    executable: str | None = None
    command: tuple[str, ...] = ()


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
    check(sought.target, os.geteuid(), here.proc)
    return _chosen(sought.target, rank, here.proc)


def check(target: Target, uid: int, proc: Path = Path("/proc")) -> None:
    """Raises NotAllowedHere where a process of it is another user's, or does not allow drills of this instance.

    Both are read anew below `proc`, of every process that the target has.
    """
    reads = [partial(_self_said, proc, one) for one in target.processes]
    answers = all_within(Deadline.after(READ_SECONDS), reads, "drill-allowed")
    said = {
        one.pid: _Said(frozenset(), "") if isinstance(answer, BaseException) else answer
        for one, answer in zip(target.processes, answers, strict=True)
    }
    others = [one for one in target.processes if said[one.pid].users - {uid}]
    if others:
        user = min(said[others[0].pid].users - {uid})
        raise NotAllowedHere(
            f"{_pids(others)} of {target.name!r} belong to user {user}, and this is user {uid}: run the drill "
            "as the user whose job it is"
        )
    strange = [one for one in target.processes if said[one.pid].marker not in ("", target.name)]
    if strange:
        named = said[strange[0].pid].marker[:80]
        raise NotAllowedHere(
            f"{_pids(strange)} of {target.name!r} allow drills of {named!r}, another instance: a marker that was "
            f"inherited allows nothing; start the job with {ALLOWED}={target.name}"
        )
    bare = [one for one in target.processes if not said[one.pid].marker or not said[one.pid].users]
    if bare:
        raise NotAllowedHere(
            f"{_pids(bare)} of {target.name!r} have no {ALLOWED} in their environment, or one that cannot be read: "
            f"start the job with {ALLOWED}={target.name}; where engines write titles over their environment, with "
            "SPT_NOENV=1 too"
        )


@dataclass(frozen=True, slots=True)
class _Said:
    """Of one process. `users`: the owner of its /proc/PID and its effective user; none where unreadable."""

    users: frozenset[int]
    marker: str


def _self_said(proc: Path, process: ProcessOfInstance) -> _Said:
    """Of this very process, with nothing inherited. Raises OSError and NotAllowed for what cannot be read."""
    looked, pid = Proc(proc), process.pid
    owner = (proc / str(pid)).stat().st_uid
    users = frozenset((owner, int(field_of(looked.read(pid, "status") or b"", b"Uid")[1])))
    try:
        marker = (looked.environ(pid) or {}).get(ALLOWED, "")
    except (NotAllowed, OSError):
        marker = ""
    stat = looked.stat(pid)  # the last, so that all of it was of this process
    same = stat is not None and stat.start_ticks == process.start_ticks
    return _Said(users, marker if same else "")


def field_of(text: bytes, name: bytes) -> list[str]:
    """Words behind `name:` in a status or fdinfo; empty where there is no such line."""
    for line in text.split(b"\n"):
        key, colon, rest = line.partition(b":")
        if colon and key == name:
            return rest.decode("ascii", "replace").split()
    return []


def _chosen(target: Target, rank: int | None, proc: Path) -> Victim:
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
    world = target.world_size or len(known)
    executable = _executable(proc, one.pid)
    return Victim(target.name, wanted, one.pid, one.start_ticks, one.name, world, pids, executable, one.command)


def _executable(proc: Path, pid: int) -> str | None:
    with suppress(NotAllowed, OSError):
        return Proc(proc).link(pid, "exe")
    return None


def _pids(processes: list[ProcessOfInstance]) -> str:
    shown = ", ".join(str(one.pid) for one in processes[:SHOWN])
    more = f" and {len(processes) - SHOWN} more" if len(processes) > SHOWN else ""
    return f"process(es) {shown}{more}"
