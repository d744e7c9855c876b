"""What is unknown of the parts that a hash is over, collected so that its reason names them in words."""

from __future__ import annotations

import re
from typing import TypeVar

from rankmuster.model.unknown import Unknown

MOST_NAMED = 6
"""Unknown parts that a reason names; the rest are counted."""

_NUMBER = re.compile(r"\d+")

_T = TypeVar("_T")


class Unknowns:
    """Unknown parts and why, each once, in the order in which they were met."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}  # reason without its numbers -> parts
        self._reasons: dict[str, list[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, part: str, reason: str) -> None:
        """Notes a part; parts whose reasons differ in numbers alone are told as one."""
        alike = _NUMBER.sub("0", reason)
        for found, one in ((self._found, part), (self._reasons, reason)):
            members = found.setdefault(alike, [])
            if one not in members:
                members.append(one)

    def known(self, part: str, value: _T | Unknown, otherwise: _T) -> _T:
        """`value`; where that is Unknown it is noted as `part` and `otherwise` stands in, for the hash will not be."""
        if isinstance(value, Unknown):
            self.add(part, value.reason)
            return otherwise
        return value

    def as_unknown(self) -> Unknown:
        """One reason for all of them: `driver unknown: no NVML; GPU 0 model, GPU 1 model unknown: ...`."""
        told = [f"{_listed(parts)} unknown: {self._reason(alike)}" for alike, parts in self._found.items()]
        more = len(told) - MOST_NAMED
        return Unknown("; ".join([*told[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]))

    def _reason(self, alike: str) -> str:
        """The first of those that differ in numbers alone: eight GPUs lack the same for the same reason."""
        first, *more = self._reasons[alike]
        return f"{first}, and so on" if more else first


def _listed(parts: list[str]) -> str:
    more = len(parts) - MOST_NAMED
    return ", ".join([*parts[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
