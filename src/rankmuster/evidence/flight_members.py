"""The members of a process group, as a dump's table writes them; one tuple for all dumps that write the same.

In a job of sixteen thousand every rank writes the whole job's members: a hundred kilobytes of text, read once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from rankmuster.evidence.instance import MAX_RANK

MAX_TEXT = 1_000_000
"""Characters of one list that are read: 150,000 ranks."""

CACHED_CHARACTERS = 16_000_000
"""Of all lists remembered together; the groups of a job of sixteen thousand ranks take about four million."""

_DIGITS = re.compile(r"\d+")


class MembersCache:
    """Lists by their text. Forgets all of them when they take too much; a lost entry costs time alone."""

    def __init__(self, most: int = CACHED_CHARACTERS) -> None:
        self._most = most
        self._characters = 0
        self._known: dict[str, tuple[int, ...] | None] = {}

    def get(self, said: str, read: Callable[[str], tuple[int, ...] | None]) -> tuple[int, ...] | None:
        """What `read` makes of `said`."""
        if said in self._known:
            return self._known[said]
        members = read(said)
        if self._characters + len(said) > self._most:
            self._known, self._characters = {}, 0
        self._known[said] = members
        self._characters += len(said)
        return members


_CACHE = MembersCache()


def members_of(value: Any) -> tuple[int, ...] | None:
    """`"[0, 1, 2, 3]"` (a string in every release), a list, or nothing usable: None."""
    if isinstance(value, str):
        return _CACHE.get(value[:MAX_TEXT], _of_text)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return _ranks([item if type(item) is int else _number(item) for item in value])
    return None


def _of_text(said: str) -> tuple[int, ...] | None:
    # One number that cannot be a rank means that the list is damaged; half of a list would accuse the wrong ranks.
    found = _DIGITS.findall(said)
    return _ranks([int(number) for number in found]) if all(len(number) < 10 for number in found) else None


def _number(item: Any) -> int:
    """Numbers that another writer gave as floats or texts; -1 for what is none."""
    if isinstance(item, float) and item.is_integer() and abs(item) < MAX_RANK:
        return int(item)
    return int(item) if isinstance(item, str) and item.isascii() and item.isdigit() and len(item) < 10 else -1


def _ranks(numbers: list[int]) -> tuple[int, ...] | None:
    if max(numbers, default=0) >= MAX_RANK:
        return None
    return tuple(sorted({number for number in numbers if number >= 0})) or None
