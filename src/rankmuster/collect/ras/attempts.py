"""What connecting to a RAS service met, attempt by attempt: silence is evidence too."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Met(str, Enum):
    """What an attempt to connect met. SILENT: accepted and not answered. CLOSED: accepted and closed, or reset.
    FOREIGN: something answered that is not RAS. UNREACHABLE: no route, no such address, or no answer to the connect."""

    RAS = "ras"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    SILENT = "silent"
    CLOSED = "closed"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One connect. `at`: unix seconds. `detail`: the error, or what answered, as short text."""

    address: str
    met: Met
    at: float
    seconds: float
    detail: str = ""

    @property
    def error(self) -> str:
        """The attempt as the exception that a plain client would have seen (`evidence.ras_error` reads these)."""
        name = {Met.SILENT: "TimeoutError", Met.REFUSED: "ConnectionRefusedError", Met.CLOSED: "ConnectionResetError"}
        words = "timed out" if self.met is Met.SILENT else self.detail
        return f"{name.get(self.met, 'OSError')}({words!r})"


class NoAnswer(Exception):
    """Nobody answered as RAS does. `attempts`: all that was tried, in order."""

    def __init__(self, attempts: tuple[Attempt, ...]) -> None:
        super().__init__(summary(attempts))
        self.attempts = attempts


def summary(attempts: tuple[Attempt, ...]) -> str:
    """`::1:28028 refused; 127.0.0.1:28028 accepted and never answered (5 times)`."""
    words = {
        Met.RAS: "answered",
        Met.REFUSED: "refused",
        Met.UNREACHABLE: "not reachable",
        Met.SILENT: "accepted and never answered",
        Met.CLOSED: "accepted and closed the connection",
        Met.FOREIGN: "answered, but is not RAS",
    }
    counts: dict[tuple[str, Met, str], int] = {}
    for one in attempts:
        detail = one.detail if one.met in (Met.UNREACHABLE, Met.FOREIGN) else ""
        key = (one.address, one.met, detail)
        counts[key] = counts.get(key, 0) + 1
    parts = []
    for (address, met, detail), times in counts.items():
        more = [detail] if detail else []
        more += [f"{times} times"] if times > 1 else []
        parts.append(f"{address} {words[met]}" + (f" ({', '.join(more)})" if more else ""))
    return "; ".join(parts) or "no time was left to ask"
