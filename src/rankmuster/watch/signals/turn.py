"""Closing what a poll may be using, from another thread: whoever is done last closes it, and nobody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Turn:
    """One signal's. `shut`: closes what is open; may be called again where nothing is.

    As a context manager around a poll; what it gives says whether there is anything left to poll.
    """

    def __init__(self, shut: Callable[[], None]) -> None:
        self._shut = shut
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> bool:
        self._lock.acquire()
        return not self._closed.is_set()

    def __exit__(self, *_: object) -> None:
        try:
            if self._closed.is_set():
                self._shut()
        finally:
            self._lock.release()

    def close(self) -> None:
        """At once where no poll runs; else at the end of that poll, by its own thread."""
        self._closed.set()
        if self._lock.acquire(blocking=False):
            try:
                self._shut()
            finally:
                self._lock.release()
