"""Facts of one GPU while its text is being read: nested keys joined, repeated keys numbered."""

from __future__ import annotations

from collections.abc import Iterable

SEPARATOR = " / "
MAX_FACTS = 4096
"""Keys of one GPU; a driver of 2026 prints about 250, a GPU with many processes some hundreds more."""
MAX_DEPTH = 12


class FactSheet:
    """Collects `facts` of the GPU at `bus_id` (normalised, None where not said)."""

    def __init__(self, bus_id: str | None) -> None:
        self.bus_id = bus_id
        self.facts: dict[str, str] = {}
        self._again: dict[str, int] = {}

    def add(self, path: Iterable[str], value: str) -> None:
        """One value; a process list repeats its keys, the second becomes `key #2`."""
        if len(self.facts) >= MAX_FACTS:
            return
        key = SEPARATOR.join(list(path)[-MAX_DEPTH:])
        if key in self.facts:
            self._again[key] = self._again.get(key, 1) + 1
            key = f"{key} #{self._again[key]}"
        self.facts[key] = value
