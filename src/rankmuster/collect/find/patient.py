"""Work on many things of which any may block for ever, without being held up by one.

A read of a process's memory map, or of a file on a dead NFS server, can sleep in the kernel where nothing wakes it.
Such work runs in a daemon thread; when one item takes longer than it may, its thread is left behind and another goes on
with the next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

MAX_LEFT_BEHIND = 8
"""Threads that one call leaves behind: every one costs memory until its read returns. After that it gives up."""


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
            tuple(items[index] for index in stuck),
            tuple(items[run.next :]),
        )


def _start(run: _Run[T, R], owner: int) -> bool:
    """False when there are no threads left to be had (a pod's limit on processes)."""
    try:
        threading.Thread(target=run.loop, args=(owner,), name="patient", daemon=True).start()
    except RuntimeError:
        return False
    return True
