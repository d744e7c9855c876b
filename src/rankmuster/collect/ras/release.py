"""NCCL releases and spans of them, compared as what they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

_RELEASE = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?!\d)")


class Release(NamedTuple):
    """One NCCL release, `2.28.9`; ordered."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def release_in(text: str) -> Release | None:
    """The first release that `text` names: `2.28.9`, `2.28.9+cuda12.9`, `2.26.2.post1`, `2.28.9-1`."""
    match = _RELEASE.search(text)
    return Release(*map(int, match.groups())) if match else None


RAS_SINCE = Release(2, 24, 3)
"""The first release with a RAS service."""

JSON_SINCE = Release(2, 28, 7)
MONITOR_SINCE = Release(2, 29, 2)
DIAGNOSTICS_SINCE = Release(2, 31, 2)
"""`DIAGNOSTICS` and `CONTROL` came together."""

FRACTIONS_SINCE = Release(2, 32, 3)
"""`TIMEOUT` takes fractions of a second."""


@dataclass(frozen=True, slots=True)
class Span:
    """Releases from `lowest` (itself in it) to below `below` (not in it). None: without an end on that side."""

    lowest: Release | None = None
    below: Release | None = None

    @classmethod
    def exactly(cls, release: Release) -> Span:
        """The span that holds this release alone."""
        return cls(release, Release(release.major, release.minor, release.patch + 1))

    @property
    def exact(self) -> Release | None:
        """The release, where the span holds one alone."""
        if self.lowest is None or self.below is None:
            return None
        return self.lowest if self == Span.exactly(self.lowest) else None

    def overlaps(self, other: Span) -> bool:
        """Whether some release may be in both."""
        return _begins_before_end(self, other) and _begins_before_end(other, self)

    def within(self, other: Span) -> bool:
        """Whether every release of this span is in `other`."""
        low = other.lowest is None or (self.lowest is not None and self.lowest >= other.lowest)
        high = other.below is None or (self.below is not None and self.below <= other.below)
        return low and high

    def __str__(self) -> str:
        if self.exact is not None:
            return str(self.exact)
        if self.lowest is None:
            return "any release" if self.below is None else f"older than {self.below}"
        return f"{self.lowest} or later" if self.below is None else f"{self.lowest} up to, not including, {self.below}"


def _begins_before_end(one: Span, other: Span) -> bool:
    return one.lowest is None or other.below is None or one.lowest < other.below


ANY = Span()
NO_RAS = Span(None, RAS_SINCE)
HAS_JSON = Span(JSON_SINCE, None)
