"""What an incident is at a moment: its steps, their actions, what was decided, and what people said. Frozen values.

Nothing in here names a rank: what is ended and started is the group, whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.incident.budget import DEFAULT_SECONDS
from rankmuster.incident.machine.parts import (
    ACTIONABLE,
    COMES_BACK,
    DECIDE_TURNS,
    OPENED,
    PEOPLE,
    READS_ONLY,
    RESUMABLE,
    ActionState,
    Approval,
    Planned,
    StepState,
)
from rankmuster.model.fault import Boundary, Progress
from rankmuster.model.incident import Course, Decision, Ending, Event, OpenedBy, Opening, Outcome, Step

__all__ = [
    "ACTIONABLE",
    "COMES_BACK",
    "PEOPLE",
    "READS_ONLY",
    "RESUMABLE",
    "ActionState",
    "Approval",
    "Incident",
    "Planned",
    "StepState",
]


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident at a moment. `steps`: of the plan that holds, in its order; `earlier`: ended ones that were planned
    again since (a second TERMINATE, a DECIDE after an approval, everything before a resume), oldest first.

    `begun_at`: from when the total deadline counts: the opening, or the resume. `waited`: seconds of it in which people
    were waited for. `seconds`: of each step, as the plans said. `free_undecided`: whether GPUs of an instance that has
    stopped are freed even where nothing was decided. `can_elsewhere`: whether the group can be started on other nodes.
    `planned`: False until there is a plan for this round. `decided_at`, `planned_at`, `progress_seen` (newest SEEN):
    sequences. `last_known`: the newest progress that says something: a watch that went blind takes nothing of it back.
    `incarnation`: of what this incident is about, after START of what it started; `seen_incarnation`: what the watch
    saw last; `first_seen_incarnation`: what it saw at first, by the same names.
    """

    id: str
    opening: Opening
    opened_at: float
    begun_at: float
    progress: Progress
    last_at: float
    sequence: int = 1
    round: int = 1
    runners: int = 0
    planned: bool = False
    planned_at: int = 0
    decided_at: int = 0
    steps: tuple[StepState, ...] = ()
    earlier: tuple[StepState, ...] = ()
    decision: Decision | None = None
    approval: Approval | None = None
    aborted: Event | None = None
    deadline: Event | None = None
    closed: Outcome | None = None
    closed_at: float | None = None
    total_seconds: float | None = None
    waited: float = 0.0
    seconds: Mapping[Step, float] = field(default_factory=dict)
    free_undecided: bool = False
    can_elsewhere: bool = False
    incarnation: str | None = None
    seen_incarnation: str | None = None
    first_seen_incarnation: str | None = None
    progress_seen: int = 0
    last_known: Progress = Progress.UNKNOWN
    recent: tuple[Event, ...] = ()

    def step(self, step: Step) -> StepState | None:
        """It in the plan that holds."""
        return next((one for one in self.steps if one.step is step), None)

    def ran(self, step: Step) -> tuple[StepState, ...]:
        """All times that it was begun, oldest first, resumes included."""
        return tuple(one for one in (*self.earlier, *self.steps) if one.step is step and one.begun_at is not None)

    def of(self, step: Step) -> float:
        """Seconds that it may take."""
        return self.seconds.get(step, DEFAULT_SECONDS[step])

    @property
    def running(self) -> tuple[StepState, ...]:
        return tuple(one for one in self.steps if one.running)

    @property
    def waiting(self) -> tuple[StepState, ...]:
        return tuple(one for one in self.steps if one.waiting)

    @property
    def needs_plan(self) -> bool:
        """Whether a runner has to plan before anything can be due: just opened, or resumed."""
        return self.closed is None and not self.planned

    @property
    def stands_still(self) -> bool:
        """Whether it is known that nothing of it moves: stopped, or all processes ended and nothing else was seen."""
        if self.progress is Progress.STOPPED:
            return True
        return self.opening.by is OpenedBy.ENDED and not self.progress_seen

    @property
    def stopped_again(self) -> bool:
        """Whether it was seen to stop after traffic was given back."""
        restored = max((one.over for one in self.ran(Step.RESTORE) if one.well), default=0)
        return 0 < restored < self.progress_seen and self.progress is Progress.STOPPED

    @property
    def moves(self) -> bool:
        return self.progress in (Progress.ADVANCING, Progress.IDLE)

    def last(self, step: Step, *, acted: bool = False, ending: Ending | None = None) -> int:
        """The sequence at which it was last begun, of those runs that acted or ended so; 0 where there is none."""
        runs = (
            one.begun for one in self.ran(step) if (not acted or one.acted) and (ending is None or one.ending is ending)
        )
        return max(runs, default=0)

    @property
    def group_touched(self) -> bool:
        """Whether the group was ended or started, or that may have begun."""
        return self.last(Step.TERMINATE, acted=True) > 0 or self.last(Step.START, acted=True) > 0

    @property
    def group_ended(self) -> bool:
        """Whether the last thing that was done to the group is that it was ended, and it did end."""
        return self.last(Step.TERMINATE, ending=Ending.DONE) > self.last(Step.START, acted=True)

    @property
    def started_unverified(self) -> bool:
        """Whether a group was started here, and it is neither known to serve nor ended again."""
        started = self.last(Step.START, acted=True)
        return started > max(self.last(Step.VERIFY, ending=Ending.DONE), self.last(Step.TERMINATE, ending=Ending.DONE))

    @property
    def started_by_others(self) -> bool:
        """Whether the last start found that somebody else had started it meanwhile: that one is never ended here."""
        starts = [one for one in self.ran(Step.START) if one.acted]
        return bool(starts) and any(action.result.get("by_others") is True for action in starts[-1].actions)

    @property
    def traffic_touched(self) -> bool:
        """Whether the instance has less traffic than it had, by us, as far as is known."""
        less = max(self.last(step, acted=True) for step in (Step.SHED, Step.STOP_TRAFFIC, Step.CUT))
        return less > self.last(Step.RESTORE, ending=Ending.DONE)

    @property
    def fenced_after_stuck(self) -> StepState | None:
        """The FENCE that was begun after TERMINATE ended for a node that cannot free its GPU; None where none was."""
        stuck = max((one.over for one in self.ran(Step.TERMINATE) if one.ending is Ending.NODE), default=0)
        return next((one for one in self.ran(Step.FENCE) if 0 < stuck < one.begun), None)

    @property
    def stuck(self) -> bool:
        """Whether the last end of the group left a process that cannot be killed, or GPU memory that is not free."""
        terminate = self.step(Step.TERMINATE)
        return terminate is not None and terminate.ending is Ending.NODE

    @property
    def lapsed(self) -> bool:
        """Whether an approval was waited for, and nobody gave it."""
        approve = self.step(Step.APPROVE)
        return approve is not None and approve.ended and not approve.well

    @property
    def moved_on(self) -> bool:
        """Whether an approval was waited for, and the instance went on by itself meanwhile."""
        approve = self.step(Step.APPROVE)
        return approve is not None and approve.begun_at is not None and approve.ending is Ending.SKIPPED

    @property
    def only_shed(self) -> bool:
        """Whether its weight was lowered, and traffic was never stopped, or has been opened again by SHED."""
        stopped = max(self.last(Step.STOP_TRAFFIC, acted=True), self.last(Step.CUT, acted=True))
        opened = (
            one.begun
            for one in self.ran(Step.SHED)
            for action in one.actions
            if action.name.endswith(OPENED) and action.ending is Ending.DONE
        )
        return stopped == 0 or max(opened, default=0) > stopped

    @property
    def undecided(self) -> bool:
        """Whether DECIDE has ended without a decision, and is not tried again."""
        decide = self.step(Step.DECIDE)
        ended = decide is not None and decide.ended and decide.ending is not Ending.DONE
        return ended and not self._in_a_hurry

    @property
    def decides_again(self) -> bool:
        """Whether what was held is approved by now, or the time was too short, so that it is decided once more."""
        if self._in_a_hurry:
            return True
        approve, decide = self.step(Step.APPROVE), self.step(Step.DECIDE)
        if approve is None or decide is None or not decide.ended or self.course is not Course.HOLD:
            return False
        return approve.well and approve.over > decide.over and self.deadline is None and self.aborted is None

    @property
    def _in_a_hurry(self) -> bool:
        """Whether DECIDE did not come back in its seconds, and may within those of another turn: where hundreds of
        instances stop at once, processors and journal are busy. Deciding takes milliseconds, and only reads."""
        decide = self.step(Step.DECIDE)
        if decide is None or decide.ending is not Ending.TIMED_OUT or self.deadline is not None or self.lapsed:
            return False
        tried = 1 + sum(one.step is Step.DECIDE and one.ending is Ending.TIMED_OUT for one in self.earlier)
        return tried < DECIDE_TURNS and self.aborted is None

    @property
    def decision_to_plan(self) -> bool:
        """Whether a decision is written and its plan is not: a runner died in between."""
        return self.decided_at > self.planned_at

    @property
    def acted(self) -> bool:
        """Whether anything was changed in the world."""
        return any(one.acted for one in (*self.earlier, *self.steps))

    @property
    def approved_boundary(self) -> Boundary | None:
        """What an operator has approved: what was named, else what had been decided, where that can be done."""
        if self.approval is None or self.approval.by_limits:
            return None
        if self.approval.boundary is not None:
            return self.approval.boundary
        decided = None if self.decision is None else self.decision.boundary
        return decided if decided in ACTIONABLE else None

    @property
    def stuck_nodes(self) -> tuple[str, ...]:
        """Nodes on which a process could not be killed or GPU memory was not freed, as actuators named them."""
        found: dict[str, None] = {}
        for one in (*self.earlier, *self.steps):
            for action in one.actions:
                if action.ending is Ending.NODE and isinstance(action.result.get("node"), str):
                    found[action.result["node"]] = None
        return tuple(found)

    @property
    def to_fence(self) -> tuple[str, ...]:
        """Nodes that FENCE is for: those decided, and those where a process could not be killed."""
        decided = () if self.decision is None else self.decision.fence
        return tuple(dict.fromkeys((*decided, *self.stuck_nodes)))

    @property
    def avoid(self) -> tuple[str, ...]:
        """Nodes that START keeps off, where the group can be started elsewhere: fenced ones, those to be re-tested."""
        decision = self.decision
        decided = (*decision.fence, *decision.retest) if decision is not None and decision.elsewhere else ()
        stuck = self.stuck_nodes if self.can_elsewhere else ()
        return tuple(dict.fromkeys((*decided, *stuck)))

    @property
    def course(self) -> Course | None:
        return None if self.decision is None else self.decision.course
