"""What a step is given, and what it gives back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.incident.act import Acting, Action
from rankmuster.incident.budget import Budget
from rankmuster.incident.config import IncidentConfig, InstanceConfig
from rankmuster.incident.facts import FactsOf
from rankmuster.incident.past import Past, together
from rankmuster.incident.permits import Permits
from rankmuster.incident.record import Record
from rankmuster.incident.seen import Seen
from rankmuster.incident.tools import ToolRole, Tools
from rankmuster.model.incident import Answer, Decision, Ending, EventKind, Opening, Step

END_MARGIN = 0.5
"""Seconds before its deadline at which a step that only waits ends by itself: else it would be abandoned."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a step ended. `data`: plain values of JSON."""

    ending: Ending
    note: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all steps of a runner share. `folder`: of this incident's evidence. `seen`: what the watch says now, None
    where it says nothing. `followed`: a watch will say something of what is started, also where it is silent now."""

    config: IncidentConfig
    tools: Tools
    budget: Budget
    facts: FactsOf
    seen: Callable[[], Seen | None]
    clock: Clock
    unix_now: Callable[[], float]
    folder: Path
    permits: Permits
    followed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One step's. `deadline`: the step's, on the runner's clock."""

    setting: Setting
    step: Step
    record: Record
    acting: Acting
    deadline: Deadline

    @property
    def opening(self) -> Opening:
        return self.record.incident.opening

    @property
    def tools(self) -> Tools:
        return self.setting.tools

    @property
    def config(self) -> IncidentConfig:
        return self.setting.config

    @property
    def folder(self) -> Path:
        return self.setting.folder

    def clock(self) -> float:
        return self.setting.clock()

    def seen(self) -> Seen | None:
        return self.setting.seen()

    @property
    def past(self) -> Past:
        return Past(self.record.events)

    @property
    def incident(self) -> str:
        return self.record.incident.id

    @property
    def instance(self) -> InstanceConfig:
        return self.config.instances.get(self.opening.instance, InstanceConfig())

    @property
    def decision(self) -> Decision | None:
        return self.record.incident.decision

    def wait(self, seconds: float) -> bool:
        """Waits, and says whether the step is to end."""
        return self.acting.wait(seconds, self.clock)

    def note(self, note: str, data: Mapping[str, Any] | None = None) -> None:
        """Tells operators something besides."""
        self.record.write(EventKind.NOTED, step=self.step, note=note, data=data, within=self.acting.number)

    def scheduler_name(self, host: str) -> str:
        """A host as the scheduler calls it; what is its name already stays."""
        names = self.instance.nodes
        return host if host in names.values() else names.get(host, host)

    def enabled(self, role: ToolRole) -> bool:
        return self.tools.acts(role)

    def act_all(self, actions: Sequence[Action]) -> tuple[Answer, ...]:
        """All of them at once, each in a thread: one gateway that hangs takes no time from the others."""
        if len(actions) < 2:
            return tuple(self.acting.act(one, self.deadline) for one in actions)
        found: dict[int, Answer | BaseException] = {}

        def run(number: int, action: Action) -> None:
            try:
                found[number] = self.acting.act(action, self.deadline)
            except BaseException as error:
                found[number] = error

        threads = [threading.Thread(target=run, args=one, daemon=True) for one in enumerate(actions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answers = []
        for number in range(len(actions)):
            one = found[number]
            if isinstance(one, BaseException):
                raise one
            answers.append(one)
        return tuple(answers)


def summed(answers: Sequence[Answer], nobody: str) -> Ended:
    """The end of a step of these actions; `nobody`: what is said where there is no actuator."""
    if not answers:
        return Ended(Ending.SKIPPED, nobody)
    return Ended(together(answers), "; ".join(dict.fromkeys(one.note for one in answers if one.note)))
