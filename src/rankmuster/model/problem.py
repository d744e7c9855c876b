"""What went wrong while reading evidence; nothing is skipped in silence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ProblemKind(str, Enum):
    """`unread`: no reader knows it. `damaged`: read in part. `refused`: left, on purpose. `corrupt`: not believed."""

    UNREAD = "unread"
    DAMAGED = "damaged"
    REFUSED = "refused"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class Problem:
    """One file (or part of it) that could not be used as it should; `message` says what and what was still usable."""

    kind: ProblemKind
    source: str
    message: str
