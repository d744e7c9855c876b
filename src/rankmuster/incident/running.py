"""A step in a thread of its own: how it is begun, asked to end, and left behind."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import JOURNAL_SECONDS, Acting
from rankmuster.incident.bounded_call import Slots
from rankmuster.incident.machine.fold import IllegalTransition
from rankmuster.incident.record import Left, Record, Stopped
from rankmuster.incident.steps import (
    cut,
    decide_course,
    diagnose,
    drain,
    evidence,
    fence,
    restore,
    retest,
    settle,
    shed,
    start,
    stop_traffic,
    terminate,
    verify,
)
from rankmuster.incident.steps.scene import Ended, Scene, Setting
from rankmuster.model.incident import Ending, EventKind, Step

STEPS: Mapping[Step, Callable[[Scene], Ended]] = {
    Step.SHED: shed.run,
    Step.STOP_TRAFFIC: stop_traffic.run,
    Step.DRAIN: drain.run,
    Step.EVIDENCE: evidence.run,
    Step.DIAGNOSE: diagnose.run,
    Step.DECIDE: decide_course.run,
    Step.FENCE: fence.run,
    Step.CUT: cut.run,
    Step.TERMINATE: terminate.run,
    Step.SHORT_RETEST: retest.run_short,
    Step.START: start.run,
    Step.VERIFY: verify.run,
    Step.RESTORE: restore.run,
    Step.RETEST: retest.run,
    Step.SETTLE: settle.run,
}
"""What each step does. APPROVE and RECOVER only wait."""

READING = (Step.DRAIN, Step.EVIDENCE, Step.DIAGNOSE, Step.DECIDE, Step.VERIFY, Step.RETEST, Step.SHORT_RETEST)
"""What these have under way takes nothing from anybody: they are left behind at once."""

READING_PATIENCE = 1.0
"""Seconds for one of these to say how far it came."""

ACTING_PATIENCE = 10.0
"""Seconds for an action that is under way to come to its result, once its step is to end. A call keeps to its own
deadline; what takes longer is left behind."""

TAKEN_OVER_SECONDS = 10.0
"""Of a step whose own time was over before this runner came: it was lost to the death of another one. Enough to look at
what that one left open, and to end a group or start it. A drain is not made up for."""


class RunningStep:
    """Its thread is a daemon: a process that ends waits for none of them."""

    def __init__(self, record: Record, step: Step, number: int, deadline: Deadline, *, made_up: bool) -> None:
        self._record, self.step, self._number, self._deadline = record, step, number, deadline
        self._made_up = made_up
        self._asked_at: float | None = None
        self._over = threading.Event()
        self.ended = Ended(Ending.FAILED, "it ended without a word")
        self.stopped: Stopped | None = None

    @property
    def over(self) -> bool:
        return self._over.is_set()

    @property
    def acts(self) -> bool:
        """Whether something is under way that changes the world."""
        return not self.over and self.step not in READING

    @property
    def asked_to_end(self) -> bool:
        return self._asked_at is not None

    def lost(self, seconds: float) -> None:
        """The journal took so much of its time, and it gets that back."""
        self._made_up, self._deadline = True, Deadline(self._deadline.at + seconds, self._deadline.clock)

    @property
    def makes_up(self) -> bool:
        """Whether it still has time that an earlier runner or the journal lost."""
        return self._made_up and not self.over and not self._deadline.passed

    def ask_to_end(self) -> None:
        if self._asked_at is None:
            self._asked_at = self._deadline.clock()

    def patience_over(self, step: Step) -> bool:
        """Whether it is over, or has had its time to come to an end after it was asked to."""
        if self.over or self._asked_at is None:
            return self.over
        patience = READING_PATIENCE if step in READING else ACTING_PATIENCE
        return self._deadline.clock() >= self._asked_at + patience

    def leave(self) -> None:
        """It writes nothing any more, and nobody waits for it."""
        self._record.leave(self.step)

    def go(self, scene: Scene, over: Callable[[], None]) -> None:
        def run() -> None:
            try:
                self.ended = STEPS[self.step](scene)
            except Stopped as error:
                self.stopped = error
            except Left:
                self.ended = Ended(Ending.TIMED_OUT, "it was left behind")
            except Exception as error:
                self.ended = self._failed(error)
            finally:
                self._over.set()
                over()

        threading.Thread(target=run, name=f"incident-{self.step.value}", daemon=True).start()

    def _failed(self, error: Exception) -> Ended:
        """A fault of our own is a step's failure too: the runbook goes on, and the trace is kept."""
        if isinstance(error, IllegalTransition) and self._record.is_left(self.step, self._number):
            return Ended(Ending.TIMED_OUT, "it was left behind")
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        note = f"{self.step.value} raised {type(error).__name__}: {error}"
        try:
            data = {"trace": trace[-6_000:]}
            self._record.write(EventKind.NOTED, step=self.step, note=note, data=data, within=self._number)
        except Stopped as stopped:
            self.stopped = stopped
        except Exception:  # its own note is lost then; the step's end says what was raised
            return Ended(Ending.FAILED, note)
        return Ended(Ending.FAILED, note)


def begin(
    setting: Setting,
    record: Record,
    slots: Slots,
    step: Step,
    deadline: Deadline,
    *,
    reached: Callable[[str], None],
    over: Callable[[], None],
    lost: float = 0.0,
) -> RunningStep:
    """Starts its thread. `over`: called at its end. `lost`: seconds that the journal took to write that it begins."""
    number = record.begin(step)
    made_up = deadline.passed and step is not Step.DRAIN
    if made_up:
        deadline = Deadline.after(TAKEN_OVER_SECONDS, deadline.clock)
    elif lost >= JOURNAL_SECONDS:
        made_up, deadline = True, Deadline(deadline.at + lost, deadline.clock)
    running = RunningStep(record, step, number, deadline, made_up=made_up)
    acting = Acting(record, slots, step, number, reached, asked_to_end=lambda: running.asked_to_end, lost=running.lost)
    running.go(Scene(setting=setting, step=step, record=record, acting=acting, deadline=deadline), over)
    return running
