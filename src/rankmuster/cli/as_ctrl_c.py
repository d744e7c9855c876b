"""SIGTERM and SIGHUP as Ctrl-C: a command that started processes of its own ends them before it ends itself.

Once it was told to end, it is not told again: a second signal must not break off the first one's clean-up. Only
another Ctrl-C some seconds later does, of somebody who has waited.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN_SECONDS = 3.0
"""After which another Ctrl-C is meant: a key that is hit twice, and a terminal that closes, come within one."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def as_ctrl_c(again_seconds: float = AGAIN_SECONDS) -> Iterator[None]:
    """While it runs, the first raises KeyboardInterrupt in the main thread. What is ignored stays ignored."""
    told: list[float] = []

    def end(number: int, _: object) -> None:
        now = time.monotonic()
        if told and (number != signal.SIGINT or now - told[-1] < again_seconds):
            return
        told.append(now)
        raise KeyboardInterrupt

    earlier = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = [number for number, handler in earlier.items() if handler is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, earlier[number] if earlier[number] is not None else signal.SIG_DFL)
