"""Many files read on all cores, in their order, with a few in memory at a time.

Threads where the native reader is there, which lets go of the interpreter while it reads; processes where it is not.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TypeVar

from rankmuster.evidence.bundle import Each

AHEAD = 3
"""Parts in memory per worker: one read, one waiting, one whose result waits for its turn."""

FEW = 16
"""Parts that are read before anything is started beside: a few files are read sooner than a pool is there."""

MOST_THREADS = 4
"""Of the native reader: what a reader does with the interpreter's lock takes a third of its time, so that more threads
only wait for each other (measured on 16 cores: 8 and 16 threads take more processor time, and no less of the clock)."""

SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter's lock that others wait for, while files are read; Python's own is 0.005 s,
which a reader that needs it for a moment would wait every time."""

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Cores this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):
        return max(1, os.cpu_count() or 1)


def each_on_all_cores(workers: int | None = None) -> Each:
    """A mapper for `evidence.bundle.load`."""
    count = workers or cores()

    def each(call: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        remaining = iter(parts)
        few = list(islice(remaining, FEW))
        if count == 1 or len(few) < FEW:
            yield from map(call, few)
            yield from map(call, remaining)
            return
        with ExitStack() as stack:
            processes = None
            if not _lets_go():
                from rankmuster.cli.processes import Processes

                call = processes = stack.enter_context(Processes(call, count))
            from concurrent.futures import ThreadPoolExecutor

            threads = count if processes is not None else min(count, MOST_THREADS)
            pool = stack.enter_context(ThreadPoolExecutor(threads, thread_name_prefix="read"))
            stack.enter_context(_quick_switches())
            try:
                yield from _in_order(pool, call, few, remaining, AHEAD * threads)
            except BaseException:
                if processes is not None:
                    processes.end()
                raise

    return each


@contextmanager
def _quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _lets_go() -> bool:
    """Whether reading lets go of the interpreter, so that threads do."""
    from rankmuster.evidence import flight_native

    return flight_native.active()


def _in_order(pool: Executor, call: Callable[[T], R], first: Iterable[T], rest: Iterator[T], most: int) -> Iterator[R]:
    pending: deque[Future[R]] = deque()
    try:
        for part in first:
            pending.append(pool.submit(call, part))
        for part in rest:
            if len(pending) >= most:
                yield pending.popleft().result()
            pending.append(pool.submit(call, part))
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
