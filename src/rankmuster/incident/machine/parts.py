"""What an incident is made of: planned steps, steps with their actions, an operator's approval. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankmuster.model.fault import Boundary, Subkind
from rankmuster.model.incident import Ending, Outcome, Step

READS_ONLY = (Step.EVIDENCE, Step.DIAGNOSE, Step.DECIDE, Step.APPROVE, Step.VERIFY, Step.RECOVER)
"""What these do changes nothing: an incident in which only they acted has observed."""

PEOPLE = (Step.APPROVE, Step.RECOVER)
"""While one of these runs the total clock stands still: people, or the group itself, are waited for."""

DECIDE_TURNS = 8
"""How often DECIDE may run out of its seconds: with 200 instances that stop at once on two processors it did so once in
ten (docs/measured.md, Kubernetes), and the total deadline holds all the same."""

COMES_BACK = (Subkind.UNRESPONSIVE, Subkind.GPU_STALLED)
"""Of what is lost: a process that was frozen goes on, a kernel comes to its end."""

OPENED = ":restore"
"""End of the name of an action of SHED that opens traffic which was stopped."""

RESUMABLE = (Outcome.HELD, Outcome.GAVE_UP, Outcome.FAILED, Outcome.ABORTED)

ACTIONABLE = (Boundary.REQUEST, Boundary.INSTANCE, Boundary.PROCESS_GROUP, Boundary.NODE)


@dataclass(frozen=True, slots=True)
class Planned:
    """One step of a plan. `after`: steps that have ended before it begins. `needed`: whether what follows needs it."""

    step: Step
    after: tuple[Step, ...] = ()
    seconds: float = 0.0
    needed: bool = False


@dataclass(frozen=True, slots=True)
class ActionState:
    """One action of a step. `intent`: the INTENT's data; `result`: the RESULT's; `ending`: None until there is one.

    `runner`: how many runners had taken the incident when the intent was written: an intent without a result of an
    earlier runner is one that nobody knows the end of.
    """

    name: str
    intent_at: float
    runner: int
    intent: Mapping[str, Any] = field(default_factory=dict)
    ending: Ending | None = None
    ended_at: float | None = None
    note: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        return self.ending is None

    @property
    def acted(self) -> bool:
        """Whether it did something in the world, or may have."""
        return self.ending not in (Ending.OBSERVED, Ending.SKIPPED, Ending.REFUSED)


@dataclass(frozen=True, slots=True)
class StepState:
    """`begun_at`: None while it waits, and of one that was skipped. `ended_at`, `ending`: None until it ended.

    `begun`, `over`: sequences of the events that said so, 0 until then. What came first is told by them: clocks of two
    runners differ.
    """

    planned: Planned
    begun_at: float | None = None
    deadline_at: float | None = None
    ended_at: float | None = None
    ending: Ending | None = None
    note: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    actions: tuple[ActionState, ...] = ()
    begun: int = 0
    over: int = 0

    @property
    def step(self) -> Step:
        return self.planned.step

    @property
    def waiting(self) -> bool:
        return self.begun_at is None and self.ending is None

    @property
    def running(self) -> bool:
        return self.begun_at is not None and self.ending is None

    @property
    def ended(self) -> bool:
        return self.ending is not None

    @property
    def well(self) -> bool:
        """Whether what comes after it may go on: it was done, or it is only said what would have been done.

        Traffic that nobody is configured to restore is not missing.
        """
        if self.ending in (Ending.DONE, Ending.OBSERVED):
            return True
        return self.step is Step.RESTORE and self.ending is Ending.SKIPPED and self.begun_at is not None

    @property
    def acted(self) -> bool:
        return self.step not in READS_ONLY and any(action.acted for action in self.actions)

    def action(self, name: str) -> ActionState | None:
        return next((one for one in self.actions if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Approval:
    """`boundary`: what the operator named, or None. `by_limits`: no operator, limits allow it now."""

    by: str
    at: float
    boundary: Boundary | None = None
    note: str = ""
    by_limits: bool = False
