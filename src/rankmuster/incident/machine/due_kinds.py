"""What can be due. Each has one event that does it."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.incident import Ending, Outcome, Step


@dataclass(frozen=True, slots=True)
class Begin:
    """STEP_BEGUN with `deadline_at`, in unix seconds; then the step's work."""

    step: Step
    deadline_at: float


@dataclass(frozen=True, slots=True)
class Skip:
    """STEP_ENDED skipped, of a step that never began."""

    step: Step
    why: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """A running step is to end at its next safe point: its open actions get a result, then STEP_ENDED with `ending`
    (or how it did end meanwhile)."""

    step: Step
    why: str
    ending: Ending = Ending.TIMED_OUT


@dataclass(frozen=True, slots=True)
class Finish:
    """STEP_ENDED with `ending`: a step that only waits (APPROVE, RECOVER) has got what it waited for."""

    step: Step
    ending: Ending
    why: str


@dataclass(frozen=True, slots=True)
class PassDeadline:
    """DEADLINE."""

    why: str


@dataclass(frozen=True, slots=True)
class Close:
    """CLOSED with `outcome`, and the note: what is left as it is."""

    outcome: Outcome
    note: str


Due = Begin | Skip | Abandon | Finish | PassDeadline | Close
