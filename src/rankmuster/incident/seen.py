"""What the watch says of one instance, as far as the runbook asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.fault import Progress


@dataclass(frozen=True, slots=True)
class Seen:
    """`at`: unix seconds of the look; `since`: from when the instance has been so."""

    progress: Progress
    incarnation: str | None
    at: float
    since: float | None = None
    reason: str = ""
