"""Waits for work that the kernel may never end: a folder on a dead NFS server, a /proc file of a process whose memory
map is locked. Such a call cannot be interrupted, only left behind in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rankmuster.collect.deadline import Deadline

T = TypeVar("T")

MAX_AT_ONCE = 32
"""Calls made at the same time: more than the ranks of any node today (8 or 16), few enough for a pod's pids limit."""


class NoAnswer(Exception):
    """The work had not ended by the deadline, or no thread could be started for it."""


def within(deadline: Deadline, work: Callable[[], T]) -> T:
    """What `work` returns. Raises NoAnswer when it takes longer, and what `work` raises."""
    [result] = all_within(deadline, [work])
    if isinstance(result, BaseException):
        raise result
    return result


def all_within(deadline: Deadline, works: Sequence[Callable[[], T]]) -> list[T | BaseException]:
    """What each of `works` returned or raised, in their order; NoAnswer where it is not known by the deadline."""
    results: list[T | BaseException] = [NoAnswer("not ended by the deadline") for _ in works]
    slots = threading.Semaphore(MAX_AT_ONCE)
    closed = threading.Event()
    threads: list[threading.Thread] = []

    def one(place: int, work: Callable[[], T]) -> None:
        try:
            result: T | BaseException = work()
        except BaseException as error:  # handed to the caller, who knows what to expect
            result = error
        if not closed.is_set():
            results[place] = result
        slots.release()

    for place, work in enumerate(works):
        if not slots.acquire(timeout=deadline.remaining()):
            break
        thread = threading.Thread(target=one, args=(place, work), name="collect-flight-call", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            results[place] = NoAnswer(f"no thread could be started for it ({error})")
            slots.release()
            continue
        threads.append(thread)
    _join(threads, deadline)
    closed.set()
    return list(results)


def _join(threads: Iterable[threading.Thread], deadline: Deadline) -> None:
    for thread in threads:
        thread.join(deadline.remaining())
