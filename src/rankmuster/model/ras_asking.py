"""What a collector noted of asking RAS (`ras/probe.json`), and RAS's own checks across ranks (`DIAGNOSTICS`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RasAttempt:
    """One connect. `met`: ras, refused, unreachable, silent (accepted and never answered), closed, foreign.
    `at`: unix seconds, None where not said."""

    address: str
    met: str
    at: float | None


@dataclass(frozen=True, slots=True)
class RasQuery:
    """One collector's dealings with RAS on one node. `decision`: the last one, `ask`, `decline`, `no_ras`, ...;
    `reason`: why. `hazards`: harm that this release's RAS can do. `releases`: NCCL as it answered or was found mapped.
    `foreign_replies`: replies that named none of the instance's processes."""

    source: str
    address: str | None
    decision: str | None
    reason: str | None
    outcome: str | None
    hazards: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    attempts: tuple[RasAttempt, ...] = ()
    foreign_replies: int = 0


@dataclass(frozen=True, slots=True)
class RasDiagnostic:
    """One line of RAS's own checks (NCCL 2.31.2 and later). `well`: it says OK; the others tell what differs."""

    source: str
    line: int
    host: str | None
    pid: int | None
    well: bool
    text: str

    @property
    def reference(self) -> str:
        """`ras/diagnostics-1795986510.000.txt#L7`."""
        return f"{self.source}#L{self.line}"
