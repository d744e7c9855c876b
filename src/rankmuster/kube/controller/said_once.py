"""A trouble that lasts is said once, and again when it is another one."""

from __future__ import annotations

from collections.abc import Callable

MOST_KEPT = 10_000


class SaidOnce:
    """`say`: one line for the log. For one thread per subject."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: dict[str, str] = {}

    def tell(self, of: str, said: str) -> None:
        """`of`: what it is about. Empty: it is over."""
        if said and said != self._told.get(of):
            self._say(said)
        if said and len(self._told) < MOST_KEPT:
            self._told[of] = said
        else:
            self._told.pop(of, None)
