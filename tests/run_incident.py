"""One incident in a small world, from its opening to its end, over a real journal: what tests of the runner share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from incident_world import INSTANCE, Memory, World
from incident_world import opening as an_opening
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.facts import facts_of
from rankmuster.incident.machine.state import Incident
from rankmuster.incident.runner import Runner
from rankmuster.incident.tools import Tools
from rankmuster.model.incident import Ending, Event, EventKind, Opening, Step
from rankmuster.store.journal import Journal

QUICK: dict[Step, float] = {
    Step.SHED: 2.0,
    Step.STOP_TRAFFIC: 2.0,
    Step.DRAIN: 1.5,
    Step.EVIDENCE: 3.0,
    Step.DIAGNOSE: 3.0,
    Step.APPROVE: 5.0,
    Step.FENCE: 2.0,
    Step.CUT: 2.0,
    Step.TERMINATE: 3.0,
    Step.SHORT_RETEST: 2.0,
    Step.START: 3.0,
    Step.VERIFY: 3.0,
    Step.RECOVER: 4.0,
    Step.RESTORE: 2.0,
    Step.RETEST: 2.0,
    Step.SETTLE: 2.0,
}
"""Budgets of tests: whole runs of a world that answers at once take less than a second."""


@dataclass
class Ran:
    """What came of it."""

    incident: Incident
    events: tuple[Event, ...]

    def ended(self, step: Step) -> Event:
        return [one for one in self.events if one.kind is EventKind.STEP_ENDED and one.step is step][-1]

    def ending(self, step: Step) -> Ending | None:
        found = [one.ending for one in self.events if one.kind is EventKind.STEP_ENDED and one.step is step]
        return found[-1] if found else None

    def results(self, step: Step) -> list[Event]:
        return [one for one in self.events if one.kind is EventKind.RESULT and one.step is step]

    def notes(self) -> str:
        return "\n".join(one.note for one in self.events)

    def place(self, kind: EventKind, step: Step) -> int:
        return next(one.sequence for one in self.events if one.kind is kind and one.step is step)


@dataclass
class Rig:
    """A world with a journal beside it."""

    folder: Path
    world: World = field(default_factory=lambda: World(Memory()))
    config: IncidentConfig = field(default_factory=lambda: IncidentConfig(budget=QUICK))

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        with Journal.open(str(self.folder / "journal.db")) as journal:
            yield journal

    def runner(self, journal: Any, tools: Tools | None = None, **changes: Any) -> Runner:
        values: dict[str, Any] = {
            "holder": "a",
            "facts": facts_of(self.config, INSTANCE, journal, changes.get("unix_now", __import__("time").time)),
            "folder": self.folder / "evidence",
            "late_patience": 0.3,
        }
        return Runner(self.config, INSTANCE, tools or self.world.tools(), journal, **{**values, **changes})

    def run(
        self,
        tools: Tools | None = None,
        opening: Opening | None = None,
        *,
        beside: Callable[[Journal, str], None] | None = None,
        **changes: Any,
    ) -> Ran:
        """From its opening to its end. `beside`: called with the journal and the id before it runs."""
        with self.journal() as journal:
            runner = self.runner(journal, tools, **changes)
            name = runner.open(opening or an_opening())
            if beside is not None:
                beside(journal, name)
            incident = runner.run(name)
            return Ran(incident, journal.events(name))
