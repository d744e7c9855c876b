"""One action of the runbook: its intent on disk, the lease still ours, the call within its deadline, a look whether it
holds, its result on disk.

Nothing is believed that was not looked at, and nothing is done twice that may not be: after a crash an intent without a
result is settled by looking first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.action import FINAL, Action, Shown, Sight, judged
from rankmuster.incident.bounded_call import TICK, Called, Hold, Slots, bounded
from rankmuster.incident.machine.state import ActionState
from rankmuster.incident.record import Record
from rankmuster.model.incident import Answer, Ending, EventKind, Step

LOOK_SECONDS = 2.0
"""Of an action's time, kept for the look at what it did."""

LOOK_SHARE = 0.25
"""... and no more than this share of it."""

__all__ = ["Acting", "Action", "Shown", "Sight"]

BACK_OFF = (0.2, 0.4, 0.8, 1.6)
"""Seconds between attempts; the last one again and again."""

JOURNAL_SECONDS = 0.5
"""What the journal takes up to this is part of a step's own time; a write takes milliseconds."""

SETTLING = (0.05, 0.2, 0.5)
"""Seconds after which the world is looked at again when it does not show yet what was said to be done."""


class Acting:
    """Does the actions of one step. `number`: of its thread, as `Record.begin` gave it.

    `asked_to_end`: whether the step should end at its next safe point: between two actions, or while it waits.
    `lost`: told how many seconds of the step the journal took before something could be done at all.
    """

    def __init__(
        self,
        record: Record,
        slots: Slots,
        step: Step,
        number: int,
        reached: Callable[[str], None],
        *,
        asked_to_end: Callable[[], bool] = lambda: False,
        lost: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._record, self._slots = record, slots
        self._step, self._number, self._reached = step, number, reached
        self._asked_to_end, self._lost = asked_to_end, lost

    @property
    def number(self) -> int:
        """Of this step's thread, for `Record.write`."""
        return self._number

    @property
    def given_up(self) -> bool:
        """Whether the step was abandoned, or the runner has to stop: nothing is waited for any more."""
        return self._record.is_left(self._step, self._number)

    @property
    def ending(self) -> bool:
        """Whether the step is to end at its next safe point."""
        return self.given_up or self._asked_to_end()

    def wait(self, seconds: float, clock: Callable[[], float]) -> bool:
        """Waits, and says whether the step is to end."""
        until = clock() + seconds
        while not self.ending:
            left = until - clock()
            if left <= 0:
                return False
            time.sleep(min(TICK, left))
        return True

    def act(self, action: Action, deadline: Deadline) -> Answer:
        """Does it, or says what would be done. Raises Stopped and Left, nothing else."""
        if not action.enabled or action.unless is not None:
            return self._observe(action)
        before = self._earlier(action)
        if before is not None and before.ending is not None:
            # an earlier runner did it and wrote it down; only the step's end is missing
            return Answer(ending=before.ending, note=before.note, data=before.result)
        if before is None and self.ending:
            return Answer(ending=Ending.SKIPPED, note=f"{action.name}: the step was told to end before it")
        hold = self._slots.take(action.slot, f"{action.slot}: {action.name}", deadline, lambda: self.given_up)
        if isinstance(hold, str):
            note = f"nothing was asked of {action.slot}: an earlier call of it has not returned ({hold})"
            return Answer(ending=Ending.FAILED, note=note)
        try:
            if before is not None:
                answer = self._settle(action, deadline, hold)
            else:
                begun = deadline.clock()
                self._intend(action)
                answer = self._do(action, self._made_up(deadline, begun), hold)
        finally:
            hold.finish()
        return self._result(action, answer)

    # -- parts

    def _made_up(self, deadline: Deadline, begun: float) -> Deadline:
        """The deadline, later by what the journal took to write the intent: a database that stood still for longer than
        a step has would else have undone it."""
        seconds = deadline.clock() - begun
        if seconds < JOURNAL_SECONDS:
            return deadline
        self._lost(seconds)
        return Deadline(deadline.at + seconds, deadline.clock)

    def _observe(self, action: Action) -> Answer:
        try:
            lines = tuple(str(one) for one in action.would())
        except Exception as error:
            lines = (f"what {action.slot} would do cannot be said ({type(error).__name__}: {error})",)
        why = action.unless or f"{action.slot} is not enabled"
        answer = Answer(
            ending=Ending.OBSERVED, note=f"{why}; it would: {'; '.join(lines)}", data={"would": list(lines)}
        )
        earlier = self._earlier(action)
        if earlier is None:
            self._intend(action)
        elif earlier.ending is not None:
            return Answer(ending=earlier.ending, note=earlier.note, data=earlier.result)
        return self._result(action, answer)

    def operation(self, name: str) -> str:
        """Unique to this action of this run of the step, and the same after a crash."""
        incident = self._record.incident
        times = len(incident.ran(self._step))
        return f"{incident.id}/{self._step.value}{f'-{times}' if times > 1 else ''}/{name}"

    def _intend(self, action: Action) -> None:
        self._record.write(
            EventKind.INTENT,
            step=self._step,
            action=action.name,
            within=self._number,
            data={
                "safe": action.safe,
                "incarnation": action.incarnation,
                "operation": self.operation(action.name),
                "enabled": action.enabled and action.unless is None,
            },
        )

    def _result(self, action: Action, answer: Answer) -> Answer:
        written = self._record.write(
            EventKind.RESULT,
            step=self._step,
            action=action.name,
            ending=answer.ending,
            note=answer.note,
            data={**action.data, **answer.data},
            within=self._number,
        )
        return replace(answer, note=written.note, data=written.data)

    def _earlier(self, action: Action) -> ActionState | None:
        """What the journal has of it in this run of the step: an intent, perhaps with its result."""
        state = self._record.incident.step(self._step)
        return state.action(action.name) if state is not None else None

    def _settle(self, action: Action, deadline: Deadline, hold: Hold) -> Answer:
        """An earlier runner wrote its intent and died before a result."""
        sight = self._first_sight(action, deadline)
        if sight.shown is Shown.HOLDS:
            note = f"it was found done after a runner's end: {sight.note}"
            return Answer(ending=Ending.DONE, note=note, data={**sight.data, "found": True})
        if self.ending:
            unknown = sight.shown is Shown.UNKNOWN
            note = f"a runner died while it did this, and it is not to go on: {sight.note}"
            return Answer(ending=Ending.UNKNOWN if unknown else Ending.TIMED_OUT, note=note)
        if action.safe or (action.bound and sight.shown is Shown.NOT):
            self._intend(action)
            answer = self._do(action, deadline, hold)
            return replace(answer, data={**answer.data, "repeated": True})
        return Answer(
            ending=Ending.UNKNOWN,
            note=f"a runner died while it did this, and nobody can tell whether it was done ({sight.note}); it is "
            f"not done again: see how {action.slot} stands, then `rankmuster incident resume`",
        )

    def _first_sight(self, action: Action, deadline: Deadline) -> Sight:
        """What may not be done again without having looked waits for whoever can say: what ended the runner may have
        ended that one too, and it comes back."""
        attempts = 0
        while True:
            sight = self.look(action.look, deadline)
            pause = BACK_OFF[min(attempts, len(BACK_OFF) - 1)]
            attempts += 1
            known = sight.shown is not Shown.UNKNOWN or action.safe or action.look is None
            if known or deadline.remaining() <= pause or self.wait(pause, deadline.clock):
                return sight

    def _do(self, action: Action, deadline: Deadline, hold: Hold) -> Answer:
        """Attempts within the deadline, each looked at."""
        operation = self.operation(action.name)
        reserve = min(LOOK_SECONDS, deadline.remaining() * LOOK_SHARE) if action.look is not None else 0.0
        until = deadline.before(reserve)
        attempts = 0
        while True:
            attempts += 1
            mine = until if action.attempt_seconds is None else until.within(action.attempt_seconds)
            self._record.cover(max(mine.remaining(), 0.0))
            called = bounded(lambda limit: self._call(action, limit, operation), mine, lambda: self.given_up, hold)
            self._reached(f"acted:{self._step.value}:{action.name}")
            answer = self._answer_of(action, called)
            sight = self._look_after(action, answer, deadline)
            answer = judged(answer, sight)
            # a call that is still out there forbids another one
            over = called.late or answer.ending in FINAL or (action.part_will_do and answer.ending is Ending.PARTIAL)
            if over or not self._again(action, answer, sight, until, attempts):
                return answer if attempts == 1 else replace(answer, data={**answer.data, "attempts": attempts})

    def _call(self, action: Action, limit: Deadline, operation: str) -> Answer:
        """In the call's own thread. A process may have stood still since its lease was looked at: what another runner
        has done by now is not undone by a late call."""
        lost = self._record.lost
        if lost is not None:
            return Answer(ending=Ending.REFUSED, note=f"{action.slot} was not asked: {lost}")
        if limit.passed:
            return Answer(ending=Ending.TIMED_OUT, note=f"{action.slot} was not asked: its time was over before")
        return action.call(limit, operation)

    def _again(self, action: Action, answer: Answer, sight: Sight, until: Deadline, attempts: int) -> bool:
        never_asked = answer.data.get("sent") is False
        may = action.safe or never_asked or (action.bound and sight.shown is Shown.NOT)
        pause = BACK_OFF[min(attempts, len(BACK_OFF)) - 1]
        if not may or until.remaining() <= pause:
            return False
        return not self.wait(pause, until.clock)

    def _look_after(self, action: Action, answer: Answer, deadline: Deadline) -> Sight:
        """What is said to be done may take a moment to show."""
        sight = self.look(action.look, deadline)
        for pause in SETTLING:
            if answer.ending is not Ending.DONE or sight.shown is not Shown.NOT or deadline.remaining() <= pause:
                break
            if self.wait(pause, deadline.clock):
                break
            sight = self.look(action.look, deadline)
        return sight

    def look(self, look: Callable[[Deadline], Sight] | None, deadline: Deadline) -> Sight:
        """A look that returns in time and raises nothing."""
        if look is None:
            return Sight(Shown.UNKNOWN, "nobody can look")
        seen = bounded(look, deadline.within(LOOK_SECONDS), lambda: self.given_up)
        if isinstance(seen.answer, Sight):
            return seen.answer
        if seen.raised is not None:
            self._note_trace(f"a look raised {seen.raised}", seen.trace)
            return Sight(Shown.UNKNOWN, f"the look raised {seen.raised}")
        return Sight(Shown.UNKNOWN, "the look did not return in time")

    def _answer_of(self, action: Action, called: Called[Answer]) -> Answer:
        if called.late:
            note = f"{action.slot} had not answered by the deadline; the call is left behind"
            return Answer(ending=Ending.TIMED_OUT, note=note)
        if called.raised is not None:
            self._note_trace(f"{action.slot} raised {called.raised} in {action.name}", called.trace)
            return Answer(ending=Ending.FAILED, note=f"{action.slot} raised {called.raised}")
        answer = called.answer
        if not isinstance(answer, Answer) or not isinstance(answer.ending, Ending):
            what = type(answer).__name__
            return Answer(ending=Ending.FAILED, note=f"{action.slot} answered with a {what}, which says nothing")
        return answer

    def _note_trace(self, note: str, trace: str) -> None:
        self._record.write(EventKind.NOTED, step=self._step, note=note, data={"trace": trace}, within=self._number)
