"""The steps that are under way: begun, taken over from a runner that died, collected at their end, or left behind."""

from __future__ import annotations

from collections.abc import Callable

from rankmuster.collect.deadline import Deadline
from rankmuster.incident import leave
from rankmuster.incident.bounded_call import Slots
from rankmuster.incident.machine.due import Abandon
from rankmuster.incident.machine.state import PEOPLE
from rankmuster.incident.record import Record
from rankmuster.incident.running import RunningStep, begin
from rankmuster.incident.steps.scene import Setting
from rankmuster.model.incident import Step


class UnderWay:
    """Of one incident; for the runner's thread alone. `over`: called when one has ended. What writes raises what
    `Record` raises."""

    def __init__(
        self, record: Record, setting: Setting, slots: Slots, reached: Callable[[str], None], over: Callable[[], None]
    ) -> None:
        self._record, self._setting, self._slots = record, setting, slots
        self._reached, self._over = reached, over
        self._steps: dict[Step, RunningStep] = {}

    def start(self, step: Step, deadline_at: float, lost: float = 0.0) -> None:
        """`lost`: seconds that the journal took to write that it begins."""
        if step in PEOPLE:
            return
        left = deadline_at - self._setting.unix_now()
        self._steps[step] = begin(
            self._setting,
            self._record,
            self._slots,
            step,
            Deadline.after(max(left, 0.0), self._setting.clock),
            reached=self._reached,
            over=self._over,
            lost=lost,
        )

    def take_over(self) -> None:
        """Steps that an earlier runner began and did not end."""
        for state in self._record.incident.running:
            if state.step not in self._steps and state.deadline_at is not None:
                self.start(state.step, state.deadline_at)

    def collect_ends(self) -> None:
        """Writes down those that have ended. Raises Stopped where one of them had to stop."""
        for step, running in list(self._steps.items()):
            if not running.over:
                continue
            del self._steps[step]
            ended = running.ended
            running.leave()
            if running.stopped is not None:
                raise running.stopped
            state = self._record.incident.step(step)
            if state is not None and state.running:
                leave.end(self._record, step, ended.ending, ended.note, ended.data)

    def abandon(self, one: Abandon) -> bool:
        """Asks it to end, waits a little where something is under way, then leaves it behind. False where everything is
        to be asked anew."""
        running = self._steps.get(one.step)
        incident = self._record.incident
        if running is not None and running.makes_up and incident.aborted is None and incident.deadline is None:
            return True
        if running is not None:
            running.ask_to_end()
            if not running.patience_over(one.step):
                return True
            if running.over:
                self.collect_ends()
                return False
            running.leave()
            del self._steps[one.step]
        leave.end(self._record, one.step, one.ending, one.why, {})
        return False

    @property
    def acts(self) -> bool:
        """Whether an action is under way that would be left without a result."""
        return any(one.acts for one in self._steps.values())

    def leave_all(self) -> None:
        """None of them writes anything any more."""
        for one in self._steps.values():
            one.leave()
