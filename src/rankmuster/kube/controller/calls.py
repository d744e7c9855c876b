"""Calls of the API server, counted: by verb and resource, and what came of them."""

from __future__ import annotations

import threading
from collections import Counter


class Calls:
    """Thread-safe. Told of every attempt, those that were repeated too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def told(self, verb: str, group: str, resource: str, subresource: str, status: int | None) -> None:
        """`status` None: no answer came."""
        place = f"{resource}.{group}" if group else resource
        name = f"{place}/{subresource}" if subresource else place
        outcome = "none" if status is None else "ok" if status < 400 else str(status)
        with self._lock:
            self._counts[verb, name, outcome] += 1

    def counts(self) -> dict[tuple[str, str, str], int]:
        """(verb, resource, outcome) -> attempts."""
        with self._lock:
            return dict(self._counts)
