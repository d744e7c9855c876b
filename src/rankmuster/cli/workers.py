"""Many files read on all cores, in their order, with a few in memory at a time.

Threads where the native reader is there, which lets go of the interpreter while it reads; processes where it is not.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from itertools import islice
from typing import TypeVar

from rankmuster.cli.ahead import wait_for_imports
from rankmuster.cli.status import CommandError
from rankmuster.evidence.bundle import Each

AHEAD = 3
"""Parts in memory per worker: one read, one waiting, one whose result waits for its turn."""

FEW = 16
"""Parts that are read before anything is started beside: a few files are read sooner than a pool is there."""

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
        with _pool(count) as pool:
            try:
                yield from _in_order(pool, call, few, remaining, AHEAD * count)
            except BaseException:
                _end_processes()
                raise

    return each


def _end_processes() -> None:
    """Ends those of a pool whose results nobody wants any more: one may be half-way through a file of 128 MiB."""
    import multiprocessing

    for process in multiprocessing.active_children():
        process.terminate()


def _pool(count: int) -> Executor:
    from rankmuster.evidence import flight_native

    if flight_native.active():
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(count, thread_name_prefix="read")
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Forked while there is no other thread; a fresh interpreter per worker takes longer than reading a hundred dumps.
    wait_for_imports()
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("fork"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """In a worker: it ends when the program does, which may be killed (by `timeout`, say) and can tell nobody."""
    from threading import Thread

    Thread(target=_wait_for_the_end, daemon=True).start()


def _wait_for_the_end() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


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
    except BrokenExecutor as error:
        raise CommandError(
            "a process that was reading files was killed, most often because memory ran out; free some, give fewer "
            "files at a time, or install with a C compiler: the native reader takes less"
        ) from error
    finally:
        for future in pending:
            future.cancel()
