"""The data of an event as the journal keeps it: JSON that every reader takes, of bounded size."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from rankmuster.model.plain_json import utf8

MOST_DATA = 64 * 1024
"""Characters of one event's data as JSON. What is larger (a verdict with everything that it stands on) lies in a file
beside the bundle; the journal names it."""

MOST_KEPT = 4_000
"""Characters of a text that is too large as a whole."""

MOST_VALUES = 50_000
"""Values of one event: more do not fit in `MOST_DATA` anyway, and are not even looked at."""

MOST_DEPTH = 40

MOST_NAMED = 40
"""Characters of a key in the note about it."""

CUT = "cut"
"""Key of the note that says what was left out."""


def json_of(data: Mapping[str, Any]) -> str:
    """The data as JSON; parts that are too large are left out, and a member `cut` says which.

    What is plain already comes back equal. Numbers that are none become null, undecodable bytes backslash escapes,
    what JSON does not know its text.
    """
    plain = _Plain()
    members = {_text(key): plain.of(value, 1) for key, value in list(data.items())[:MOST_VALUES]}
    written = json.dumps(members, allow_nan=False)
    if len(written) <= MOST_DATA and plain.left >= 0:
        return written
    return _cut(members, len(written))


def _cut(members: dict[str, Any], size: int) -> str:
    """The largest members go first; the beginnings of texts among them come back where there is room."""
    sizes = {key: _size(key, value) for key, value in members.items()}
    lacking: dict[str, Any] = {}
    total = sum(sizes.values())
    room = MOST_DATA - 8 * MOST_NAMED * 12 - 1_000  # for the note; a character may take twelve
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        if total <= room:
            break
        lacking[key] = members.pop(key)
        total -= sizes[key]
    for key, value in lacking.items():
        begins = value[:MOST_KEPT] if isinstance(value, str) else ""
        if begins and total + _size(key, begins) <= room:
            members[key] = begins
            total += _size(key, begins)
    named = ", ".join(key[:MOST_NAMED] for key in list(lacking)[:8]) + (
        f" and {len(lacking) - 8} more" if len(lacking) > 8 else ""
    )
    members[CUT] = f"it had {size:,} characters of at most {MOST_DATA:,}; left out or shortened: {named or 'its end'}"
    return json.dumps(members)


def _size(key: str, value: Any) -> int:
    return len(json.dumps(key)) + len(json.dumps(value)) + 4  # two of them separate it


class _Plain:
    """`left`: how many values may still come."""

    def __init__(self) -> None:
        self.left = MOST_VALUES

    def of(self, value: Any, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > MOST_DEPTH:
            return None if self.left < 0 else "..."
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return self.of(value.value, depth)
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, int):
            return int(value) if value.bit_length() <= 64 else float(value) if value.bit_length() < 1000 else None
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if isinstance(value, Mapping):
            return {_text(key): self.of(one, depth + 1) for key, one in self._first(value.items())}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.of(one, depth + 1) for one in self._first(value)]
        return _text(value)

    def _first(self, values: Any) -> list[Any]:
        if len(values) > self.left:
            kept, self.left = max(self.left, 0), -1
            return list(values)[: min(kept, 100)]
        return list(values)


def _text(value: Any) -> str:
    return utf8(str(value)[: 2 * MOST_DATA])
