"""How each thing that was done on a stop ended, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from rankmuster.watch.respond.notice import StopNotice


class StepEnding(str, Enum):
    """OFF: switched off by the configuration. NOT_DONE: never begun, and the note says why. The first two are no ends.

    PARTIAL: of a collection that found the node and not the instance. TIMED_OUT: ended by its deadline, not by itself.
    """

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    NOT_DONE = "not_done"
    OFF = "off"


_WORDS = {
    StepEnding.PARTIAL: "failed",
    StepEnding.TIMED_OUT: "failed",
    StepEnding.NOT_DONE: "not done",
    StepEnding.WAITING: "not done",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """One step. `note`: one sentence. `status`: the exit status of its process, negative for a signal, None for none.

    `seconds`: how long it took, 0 where nothing ran. `repeated`: an earlier watch did it, or this one for an earlier
    stop of the same incarnation: it does not count a second time.
    """

    ending: StepEnding
    note: str = ""
    status: int | None = None
    seconds: float = 0.0
    repeated: bool = False

    @property
    def text(self) -> str:
        """As `StopView` says it: "running", "done", "failed: why", "not done: why", "off"."""
        if self.ending in (StepEnding.RUNNING, StepEnding.DONE, StepEnding.OFF):
            return str(self.ending.value)
        word = _WORDS.get(self.ending, "failed")
        return f"{word}: {self.note}" if self.note else word


ENDING = "the watch is ending; the next one does it, if the instance has still stopped by then"
"""Why a step was left to the next watch."""

OFF = Ended(StepEnding.OFF)
WAITING = Ended(StepEnding.WAITING, "its turn has not come")
RUNNING = Ended(StepEnding.RUNNING)


@dataclass(frozen=True, slots=True)
class HookEnded:
    """One hook. `kind`: "command" or "webhook"; `name`: its program, or the server of its URL; no secret is in it."""

    kind: str
    name: str
    ended: Ended


@dataclass(frozen=True, slots=True)
class StopOutcome:
    """All that came of one stop. `number`: of the responses to this incarnation, from 1.

    `folder`: where bundle, verdict, report and log lie; None where none could be made. `bundle`: None where there is
    none. `collectors`: of the bundle's manifest, name -> ending (`collect.outcome.Ending`). `verdict`: the JSON of
    `diagnose`, None without. `repeated`: nothing was done now that had not been done before. `notes`: what the operator
    should know besides.
    """

    notice: StopNotice
    number: int
    folder: Path | None
    collect: Ended
    diagnose: Ended
    hooks: tuple[HookEnded, ...] = ()
    bundle: Path | None = None
    collectors: Mapping[str, str] = field(default_factory=dict)
    verdict: Mapping[str, Any] | None = None
    repeated: bool = False
    notes: tuple[str, ...] = ()
