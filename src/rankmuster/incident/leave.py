"""The end of a step as it is written: what has no result gets one first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.incident.record import Record
from rankmuster.model.incident import Ending, EventKind, Step

LEFT = "it had not come back when its step ended, and was left behind: what it did is not known"


def end(record: Record, step: Step, ending: Ending, note: str, data: Mapping[str, Any]) -> None:
    """Writes results of open actions, and the step's end. Whoever still works for it writes nothing after this."""
    record.leave(step)
    state = record.incident.step(step)
    if state is None or state.ended:
        return
    for action in state.actions:
        if action.open:
            record.write(EventKind.RESULT, step=step, action=action.name, ending=Ending.TIMED_OUT, note=LEFT)
    record.write(EventKind.STEP_ENDED, step=step, ending=ending, note=note, data=data)
