"""Calls that may block for ever, none of which holds up who made it.

A read of a process's memory map, of a file on a dead NFS server, or a resolver can sleep where nothing wakes it. Such a
call cannot be interrupted, only left behind in a daemon thread of its own. `within`: one call. `all_within`: several at
once. `each`: many that are quick mostly, one after the other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rankmuster.collect.deadline import Deadline

T = TypeVar("T")
R = TypeVar("R")

MAX_AT_ONCE = 32
"""Calls made at the same time: more than the ranks of any node today (8 or 16), few enough for a pod's pids limit."""
MAX_LEFT_BEHIND = 8
"""Threads that one call leaves behind: every one costs memory until its read returns. After that it gives up."""

_WAITED = "not ended by the deadline"


class Late(Exception):
    """The call had not ended in time, or no thread could be started for it."""


def within(seconds: float, call: Callable[[], T], name: str = "collect-call") -> T:
    """What `call` returns or raises, if it ends within `seconds`; `name`: of its thread. Raises Late otherwise."""
    [result] = all_within(Deadline.after(seconds), [call], name)
    if isinstance(result, Late):
        raise Late(f"not done within {seconds:.1f} s" if str(result) == _WAITED else str(result)) from result
    if isinstance(result, BaseException):
        raise result
    return result


def all_within(
    deadline: Deadline, calls: Sequence[Callable[[], T]], name: str = "collect-call"
) -> list[T | BaseException]:
    """What each of `calls` returned or raised, in their order; Late where it is not known by the deadline."""
    results: list[T | BaseException] = [Late(_WAITED) for _ in calls]
    slots = threading.Semaphore(MAX_AT_ONCE)
    closed = threading.Event()
    threads: list[threading.Thread] = []

    def one(place: int, call: Callable[[], T]) -> None:
        try:
            result: T | BaseException = call()
        except BaseException as error:  # handed to the caller, who knows what to expect
            result = error
        if not closed.is_set():
            results[place] = result
        slots.release()

    for place, call in enumerate(calls):
        if not slots.acquire(timeout=deadline.remaining()):
            break
        thread = threading.Thread(target=one, args=(place, call), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the limit on threads
            results[place] = Late(f"no thread could be started for it ({error})")
            slots.release()
            continue
        threads.append(thread)
    for thread in threads:
        thread.join(deadline.remaining())
    closed.set()
    return list(results)


@dataclass(frozen=True, slots=True)
class Done(Generic[T, R]):
    """`results`: item and result in order. `stuck`: items that did not return in time; `skipped`: not begun."""

    results: tuple[tuple[T, R], ...]
    stuck: tuple[T, ...] = ()
    skipped: tuple[T, ...] = ()


@dataclass
class _Run(Generic[T, R]):
    items: Sequence[T]
    work: Callable[[T], R]
    changed: threading.Condition = field(default_factory=threading.Condition)
    next: int = 0
    current: int | None = None
    began: float = 0.0
    results: dict[int, R] = field(default_factory=dict)
    error: BaseException | None = None
    owner: int = 0

    def loop(self, mine: int) -> None:
        while True:
            with self.changed:
                if self.owner != mine or self.error is not None or self.next >= len(self.items):
                    self.current = None if self.owner == mine else self.current
                    self.changed.notify()
                    return
                index = self.next
                self.next += 1
                self.current, self.began = index, time.monotonic()
            try:
                result = self.work(self.items[index])
            except BaseException as error:  # handed to the caller, in whose thread it belongs
                with self.changed:
                    if self.owner == mine:
                        self.error = error
                continue
            with self.changed:
                if self.owner == mine:
                    self.results[index] = result


def each(items: Sequence[T], work: Callable[[T], R], *, patience: float, total: float) -> Done[T, R]:
    """`work` of each item, giving each at most `patience` seconds, and all together `total`.

    `work` runs in another thread; what it raises is raised here. It must not need locks that a stuck one may hold.
    """
    run: _Run[T, R] = _Run(items, work)
    end = time.monotonic() + total
    stuck: list[int] = []
    if not _start(run, 0):
        run.loop(0)  # unprotected is better than not at all
    with run.changed:
        while True:
            now = time.monotonic()
            if run.error is not None:
                run.owner = -1
                raise run.error
            if run.current is None and run.next >= len(items):
                break
            overdue = run.current is not None and now - run.began >= patience
            if overdue and run.current is not None:
                stuck.append(run.current)
                run.owner += 1
                run.current = None
            if now >= end or len(stuck) > MAX_LEFT_BEHIND:
                if run.current is not None:
                    stuck.append(run.current)
                run.owner = -1
                break
            if overdue and (run.next >= len(items) or not _start(run, run.owner)):
                break
            waiting = patience - (now - run.began) if run.current is not None else patience
            run.changed.wait(max(min(waiting, end - now), 0.001))
        return Done(
            tuple((items[index], result) for index, result in sorted(run.results.items())),
            tuple(items[index] for index in stuck if index not in run.results),  # it may have ended this moment
            tuple(items[run.next :]),
        )


def _start(run: _Run[T, R], owner: int) -> bool:
    """False when there are no threads left to be had (a pod's limit on processes)."""
    try:
        threading.Thread(target=run.loop, args=(owner,), name="patient", daemon=True).start()
    except RuntimeError:
        return False
    return True
