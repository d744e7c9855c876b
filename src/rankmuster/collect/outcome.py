"""How a collector ended. The words stand in the bundle's manifest and are read by `diagnose`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Ending(str, Enum):
    """DONE, PARTIAL: something is in the bundle. NOTHING: asked properly, and there is none of it here.

    DECLINED: not asked, since a policy forbids it or nobody wanted it. DENIED: no permission. FAILED: it broke, or what
    was asked gave no usable answer. TIMED_OUT: it was abandoned at its deadline; what it had put by then is kept.
    """

    DONE = "done"
    PARTIAL = "partial"
    NOTHING = "nothing"
    DECLINED = "declined"
    DENIED = "denied"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`note`: one sentence for a person: what was asked, of whom, what came back, and what to do where it is a fault.

    `warnings`: what the operator should know besides (each one sentence).
    """

    ending: Ending
    note: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """How one collector ended. `started`: unix seconds; `seconds`: how long it ran, of `budget_seconds`."""

    name: str
    outcome: Outcome
    started: float
    seconds: float
    budget_seconds: float = 0.0
    files: tuple[str, ...] = ()
