"""A value that could not be read, with the reason. It equals nothing: "we do not know" is no match."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """Stands where a value would. `reason`: what was tried and what came back, for people."""

    reason: str

    def __eq__(self, other: object) -> bool:
        """Never, not even with itself: two nodes whose driver could not be read do not have the same driver."""
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return False
