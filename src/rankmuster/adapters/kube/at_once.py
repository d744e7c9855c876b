"""Several things at once that may each hang: what has not come by the deadline is left behind."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from rankmuster.collect.deadline import Deadline

T = TypeVar("T")

MOST_THREADS = 64
"""At once: an instance of 64 pods is asked in one go, and those behind them still have their turn."""


def at_once(tasks: Sequence[Callable[[], T]], deadline: Deadline, *, most: int = MOST_THREADS) -> list[T | None]:
    """Their results in order; None of one that had not ended by the deadline, or raised.

    A task must have an end of its own: it is left behind, not ended. What it raises is an error of the program, which
    the thread's own hook tells.
    """
    results: list[T | None] = [None] * len(tasks)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(tasks)):
        waiting.put(number)
    ended = threading.Semaphore(0)

    def work() -> None:
        while not deadline.passed:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                results[number] = tasks[number]()
            finally:
                ended.release()

    threads = [threading.Thread(target=work, name="at-once", daemon=True) for _ in range(min(len(tasks), most))]
    for thread in threads:
        thread.start()
    for _ in tasks:
        if not ended.acquire(timeout=max(deadline.remaining(), 0.001)) and deadline.passed:
            break
    return list(results)
