"""Runs all collectors at once, each under its own deadline and all under one; abandons those that do not end.

Threads that are abandoned are daemons: they hold up neither the bundle nor the end of the program. What they would
still write goes into a sink that is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rankmuster.collect.collector import Collector, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.outcome import Ending, Outcome, Report
from rankmuster.collect.sink import SinkClosed, SinkFull, Store

POLL_SECONDS = 0.05
"""How often the pool looks whether somebody wants it to hurry; far below anything that is waited for."""


@dataclass(frozen=True, slots=True)
class Task:
    """`until_end`: it samples as long as the others take (`Board.ending`), and nobody waits for it beyond that."""

    collector: Collector
    until_end: bool = False


class _Run:
    """One collector's thread, and what it came back with."""

    def __init__(self, task: Task, scene: Scene, store: Store, deadline: Deadline, pulse: threading.Event) -> None:
        self.task = task
        self.name = task.collector.name
        self.budget = min(task.collector.budget_seconds, deadline.remaining())
        self.deadline = deadline.within(task.collector.budget_seconds)
        self.started = scene.now()
        self._begun = scene.clock()
        self._ended: float | None = None
        self._outcome: Outcome | None = None
        self._scene, self._store, self._pulse = scene, store, pulse
        self.sink = store.sink(self.name)
        self._thread = threading.Thread(target=self._collect, name=f"collect-{self.name}", daemon=True)

    def start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:  # no more threads: a pod's pids limit
            self._end(Outcome(Ending.FAILED, f"could not be started: {error} (the limit on processes and threads?)"))

    def _end(self, outcome: Outcome) -> None:
        self._ended = self._scene.clock()
        self._outcome = outcome
        self._pulse.set()

    def _collect(self) -> None:
        try:
            self._end(self.task.collector.collect(self._scene, self.sink, self.deadline))
        except SinkClosed:
            self._end(Outcome(Ending.TIMED_OUT, "was still at work when the bundle was closed"))
        except SinkFull as error:
            taken = self.sink.pieces
            ending = Ending.PARTIAL if taken else Ending.FAILED
            self._end(Outcome(ending, f"no room for more: {error}; {len(taken)} file(s) of it are kept"))
        except BaseException as error:  # a defect of the collector must not cost the others
            self._end(Outcome(Ending.FAILED, f"broke with {type(error).__name__}: {error}; please report this"))

    @property
    def over(self) -> bool:
        """Whether it has ended, or is given up."""
        return self._outcome is not None or self.deadline.passed

    @property
    def ended(self) -> bool:
        return self._outcome is not None

    def report(self) -> Report:
        files = tuple(sorted(piece.path for piece in self.sink.pieces))
        seconds = (self._ended if self._ended is not None else self._scene.clock()) - self._begun
        outcome = self._outcome
        if outcome is None:
            kept = f"{len(files)} file(s) of it are kept" if files else "it had brought nothing by then"
            outcome = Outcome(Ending.TIMED_OUT, f"abandoned after {seconds:.1f} s, not ended by then; {kept}")
        return Report(self.name, outcome, self.started, max(seconds, 0.0), self.budget, files)


def run(
    tasks: Sequence[Task],
    scene: Scene,
    store: Store,
    deadline: Deadline,
    hurry: Callable[[], bool] = lambda: False,
) -> tuple[Report, ...]:
    """Starts the tasks in the given order, all at once, and returns when all have ended or the deadline has passed.

    `hurry`: asked all the time; True ends the waiting now (the pod is being terminated), and what is there is kept.
    """
    pulse = threading.Event()
    runs = [_Run(task, scene, store, deadline, pulse) for task in tasks]
    for one in runs:
        one.start()
    told = False
    while not deadline.passed and not hurry():
        if not told and all(one.over for one in runs if not one.task.until_end):
            scene.board.post_ending()
            told = True
        if told and all(one.over for one in runs):
            break
        pulse.clear()
        pulse.wait(min(POLL_SECONDS, deadline.remaining()))
    scene.board.post_ending()
    return tuple(one.report() for one in runs)
