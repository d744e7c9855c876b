"""SIGTERM and SIGINT as a word to whoever works: it comes to an end of its own, and nothing is torn in the middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def told_to_end(tell: Callable[[], object]) -> Iterator[None]:
    """While the block runs, both call `tell` instead of ending the program. Outside the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in earlier:
        signal.signal(number, lambda *_: tell())
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
