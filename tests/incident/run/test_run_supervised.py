"""Whole incidents over a real `rankmuster run` that is killed in between and started anew, as service managers do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from incident_world import opening
from rankmuster.adapters.supervisor import Supervisor
from rankmuster.collect.deadline import Deadline
from rankmuster.incident.config import IncidentConfig
from rankmuster.model.incident import Answer, Ending, Event, EventKind, GroupState, Outcome, Step
from run_incident import QUICK, Rig
from supervised_run import Run, alive, cleaned, until

BUDGET = {**QUICK, Step.TERMINATE: 15.0, Step.START: 15.0, Step.VERIFY: 20.0}
COMMAND = ("bash", "-c", "echo $$ >> began; sleep 1000 & exec sleep 1000")


@dataclass
class Runs:
    """Of one name, one after the other."""

    folder: Path
    work: Path
    started: list[Run]
    threads: list[threading.Timer] = field(default_factory=list)

    def begin(self) -> Run:
        made = Run(
            self.folder,
            COMMAND,
            *("--on-end", "wait", "--grace", "1"),
            name=f"again-{os.getpid()}-{self.folder.stat().st_ino}",
            work=self.work,
        )
        self.started.append(made)
        return made

    def killed_and_begun_again(self, seconds: float) -> None:
        self.started[-1].process.kill()
        self.started[-1].process.wait()
        self.threads.append(threading.Timer(seconds, self.begin))
        self.threads[-1].start()

    def living(self) -> list[int]:
        return [pid for pid in map(int, (self.work / "began").read_text().split()) if alive(pid)]


@pytest.fixture
def runs(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with cleaned(tmp_path) as started:
        made = Runs(tmp_path_factory.mktemp("r"), tmp_path, started)
        yield made
        for one in made.threads:
            one.join()


@dataclass
class Serves:
    """A probe that is content with what runs."""

    group: Supervisor
    name: str = "probe"

    def serves(self, incarnation: str | None, deadline: Deadline) -> Answer:
        running = self.group.look(deadline).state is GroupState.RUNNING
        return Answer(ending=Ending.DONE if running else Ending.FAILED)


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (EventKind.STEP_BEGUN, Step.EVIDENCE),
        (EventKind.INTENT, Step.TERMINATE),
        (EventKind.RESULT, Step.TERMINATE),
        (EventKind.INTENT, Step.START),
        (EventKind.RESULT, Step.START),
    ],
)
def test_a_supervisor_that_is_killed_and_comes_back_leaves_one_group_that_serves(
    runs: Runs, tmp_path: Path, kind: EventKind, step: Step
) -> None:
    first = runs.begin()
    bound = first.running().incarnation
    rig = Rig(tmp_path, config=IncidentConfig(budget=BUDGET))
    left = [1.0]

    def told(event: Event) -> None:
        if event.kind is kind and event.step is step and left:
            runs.killed_and_begun_again(left.pop())

    tools = rig.world.tools(group=first.client, probe=Serves(first.client))
    ran = rig.run(tools, opening(incarnation=bound), told=told)

    assert not left
    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    runs.threads[0].join()
    now = runs.started[-1].running()
    assert now.incarnation != bound
    until(lambda: len(runs.living()) == 1)
    assert rig.world.state["gateways"]["front"]["state"] == "ready"
