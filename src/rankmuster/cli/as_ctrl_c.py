"""SIGTERM and SIGHUP as Ctrl-C: a command that started processes of its own ends them before it ends itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """While the block runs, both raise KeyboardInterrupt in the main thread. One that is ignored stays ignored."""

    def end(*_: object) -> None:
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
