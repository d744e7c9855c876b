"""Typed access to JSON objects that people and shell scripts wrote: a bad field is left out and complained of."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from rankmuster.evidence import times

MILLISECONDS = 1e11
"""Unix times above this are in milliseconds (as seconds they would be past the year 5000)."""

MAX_INTEGER = 2**63
_DIGITS = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,12})?")


def number(value: object, least: int = 0, most: int = MAX_INTEGER) -> int | None:
    """An integer in [least, most], also as a string or as 3.0; None for anything else (true is not 1)."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_INTEGER:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if least <= value <= most else None


def unix_seconds(value: object) -> float | None:
    """Seconds since the epoch from seconds, milliseconds or ISO 8601 with a zone; None for anything else."""
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value.strip()):
            stamp = times.iso(value)
            return stamp.unix_seconds if stamp is not None else None
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MAX_INTEGER:
        return None
    return float(value) / 1000 if value > MILLISECONDS else float(value)


class Fields:
    """Reads one object; `complaints` collects what was left out, as sentences that begin with `owner`."""

    def __init__(self, raw: Mapping[str, object], owner: str) -> None:
        self._raw = raw
        self._owner = owner
        self.complaints: list[str] = []

    def _first(self, names: tuple[str, ...]) -> tuple[str, object]:
        return next(((name, self._raw[name]) for name in names if self._raw.get(name) is not None), (names[0], None))

    def _complain(self, name: str, value: object, wanted: str) -> None:
        self.complaints.append(f"{self._owner}: {name} is {str(value)[:40]!r}, not {wanted}; it was left out")

    def text(self, *names: str) -> str | None:
        """A string; numbers are spelled out, since hosts and revisions are sometimes numbers."""
        name, value = self._first(names)
        if value is None or isinstance(value, str):
            return value or None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return str(value)
        self._complain(name, value, "a text")
        return None

    def integer(self, *names: str, least: int = 0, most: int = MAX_INTEGER) -> int | None:
        """An integer in [least, most]."""
        name, value = self._first(names)
        found = number(value, least, most)
        if value is not None and found is None:
            self._complain(name, value, f"a whole number from {least}")
        return found

    def time(self, *names: str) -> float | None:
        """Unix seconds."""
        name, value = self._first(names)
        found = unix_seconds(value)
        if value is not None and found is None:
            self._complain(name, value, "a unix time or a time with a zone")
        return found

    def boolean(self, *names: str) -> bool | None:
        """True, false or unknown."""
        name, value = self._first(names)
        if value is None or isinstance(value, bool):
            return value
        self._complain(name, value, "true or false")
        return None
