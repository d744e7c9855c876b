"""Takes the Flight Recorder's dumps of this node: what a watchdog wrote, then what the ranks write when asked.

In this order, since a dump overwrites the one before it: take what lies there; wait until it is known whether the
instance is healthy, still watching; ask each rank through its pipe where that is allowed; take what comes. RAS waits
for the end of this on versions that it can hurt, so the end is told whatever happens.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.flight import told
from rankmuster.collect.flight.decide import Decision, decide
from rankmuster.collect.flight.left import left_dumps
from rankmuster.collect.flight.pipes import Answer, Asked, ask
from rankmuster.collect.flight.recorders import Recorder, find_recorders
from rankmuster.collect.flight.shelf import Shelf
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.process_now import state_of, why_not_running
from rankmuster.collect.sink import Sink
from rankmuster.collect.target import Target

POLL_SECONDS = 0.1
"""Between two looks at the files; a look is one stat for each rank."""

ASSESSMENT_SHARE = 0.6
"""Of the time, how much may pass before the ranks are asked: a dump with stacks takes 1.2 to 5 s for 2,000 entries."""

FRESH_SECONDS = 10.0
"""A dump that is younger is of this moment: its rank is not asked for another."""

WATCHDOG_SECONDS = 20.0
"""After one rank's watchdog wrote its dump, how long the other ranks' may take: torch's own wait for it is 15 s."""

MARGIN_SECONDS = 0.3
"""Before the deadline, for writing down what there is."""


@dataclass(frozen=True, slots=True)
class DumpFiles:
    """The collector. `evidence`: what it takes speaks of the instance."""

    name: str = "flight"
    budget_seconds: float = 18.0
    evidence: bool = True

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """See `Collector.collect`. Posts `dumped` on the board in every case."""
        try:
            if scene.target is None:
                return Outcome(Ending.NOTHING, "no instance was found, so there is no recorder to take a dump of")
            if not scene.target.workers:
                return left_dumps(scene, scene.target, sink, deadline.before(MARGIN_SECONDS))
            return _Taking(scene, scene.target, sink, deadline).run()
        finally:
            scene.board.post_dumped()


class _Taking:
    """One run of it."""

    def __init__(self, scene: Scene, target: Target, sink: Sink, deadline: Deadline) -> None:
        self._scene, self._target, self._sink = scene, target, sink
        self._deadline = deadline.before(MARGIN_SECONDS)
        self._proc: Path = scene.machine.proc
        self._recorders = find_recorders(self._proc, target.workers, deadline)
        self._shelf = Shelf(scene, sink, self._recorders, self._deadline)
        self._missing: dict[Recorder, str] = {}
        self._asked_at: dict[Recorder, float] = {}
        self._denied = False
        self._pause = threading.Event()

    def run(self) -> Outcome:
        self._shelf.probe()
        self._shelf.own()
        self._shelf.siblings(self._target.world_size)
        decision = self._decide()
        waited: dict[Recorder, tuple[int, int] | None] = {}
        if decision.ask:
            self._shelf.own()
            for recorder in self._recorders:
                if self._wants(recorder) and self._ask(recorder):
                    waited[recorder] = self._shelf.version(recorder)
        self._wait(waited)
        self._shelf.own(final=True)
        self._shelf.siblings(self._target.world_size)
        self._name_missing(waited, asking=decision.ask)
        self._write_requests(waited)
        return told.outcome(
            self._recorders,
            tuple(self._shelf.taken),
            decision,
            self._missing,
            self._shelf.stale,
            self._shelf.troubles,
            asked=bool(waited),
            denied=self._denied or self._shelf.denied,
        )

    def _decide(self) -> Decision:
        """Watches the files until it is known whether the ranks may be asked."""
        wishes, board = self._scene.wishes, self._scene.board
        if all(recorder.why_not_asked() or self._fresh(recorder) for recorder in self._recorders):
            return decide(wishes, None, last=True) or Decision(True, "")  # there is nobody to ask
        patience = self._deadline.within(self._deadline.remaining() * ASSESSMENT_SHARE)
        while True:
            assessment = board.assessment(patience.within(POLL_SECONDS))
            decision = decide(wishes, assessment, last=patience.passed, left=self._deadline.remaining())
            if decision is not None:
                return decision
            self._shelf.own()

    def _fresh(self, recorder: Recorder) -> bool:
        """Whether a dump of this moment is there already."""
        written = self._shelf.written(recorder)
        return written is not None and self._scene.now() - written < FRESH_SECONDS

    def _wants(self, recorder: Recorder) -> bool:
        """Whether a dump of this process would be news, and it could write one."""
        if self._fresh(recorder):
            return False
        why = recorder.why_not_asked() or why_not_running(state_of(self._proc, recorder.process))
        if why is None and recorder.pipe is not None and self._shelf.dead(recorder.process.root, recorder.pipe):
            why = "the folder of its pipe does not answer"
        if why is not None:
            self._missing[recorder] = why
        return why is None

    def _ask(self, recorder: Recorder) -> bool:
        path = recorder.pipe
        answer = ask(self._proc, recorder.process, path) if path else Answer(Asked.ABSENT, "it has no pipe")
        self._asked_at[recorder] = self._scene.now()
        if answer.asked is not Asked.YES:
            self._missing[recorder] = answer.note
            self._denied |= answer.asked is Asked.DENIED
        return answer.asked is Asked.YES

    def _wait(self, waited: dict[Recorder, tuple[int, int] | None]) -> None:
        """Until every rank that was asked has answered or ended, and no file is being written."""
        while not self._deadline.passed:
            self._shelf.own()
            still = [
                recorder
                for recorder, before in waited.items()
                if self._shelf.version(recorder) == before
                and why_not_running(state_of(self._proc, recorder.process)) is None
            ]
            if not still and not self._shelf.growing and not self._expected(waited):
                return
            self._pause.wait(min(POLL_SECONDS, self._deadline.remaining()))

    def _expected(self, waited: dict[Recorder, tuple[int, int] | None]) -> bool:
        """Whether a watchdog has just made the ranks dump, and some have not yet."""
        times = [self._shelf.written(recorder) for recorder in self._recorders if recorder not in waited]
        known = [time for time in times if time is not None]
        if not known or len(known) == len(times) or self._scene.now() - max(known) > WATCHDOG_SECONDS:
            return False
        return any(
            self._shelf.written(recorder) is None
            and recorder not in waited
            and recorder.settings.why_no_dump() is None
            and why_not_running(state_of(self._proc, recorder.process)) is None
            for recorder in self._recorders
        )

    def _write_requests(self, waited: dict[Recorder, tuple[int, int] | None]) -> None:
        """Who was asked when, and when the dump came: it slowed the job in between, and is what a dump takes here."""
        if not waited:
            return
        requests = [
            {
                "rank": recorder.rank,
                "pid": recorder.process.inner_pid,
                "asked": round(self._asked_at[recorder], 3),
                "written": None if self._shelf.version(recorder) == before else self._shelf.written(recorder),
            }
            for recorder, before in waited.items()
        ]
        document = {"schema": "rankmuster.dump-requests/1", "requests": requests}
        self._sink.put("flight/asked.json", json.dumps(document, indent=1).encode(), look_time=self._scene.now())

    def _name_missing(self, waited: dict[Recorder, tuple[int, int] | None], *, asking: bool) -> None:
        for recorder in self._recorders:
            if recorder in waited:
                if self._shelf.version(recorder) == waited[recorder]:
                    self._missing[recorder] = self._why_no_answer(recorder)
            elif self._shelf.written(recorder) is not None:
                self._missing.pop(recorder, None)
            elif recorder not in self._missing:
                why = recorder.settings.why_no_dump() or why_not_running(state_of(self._proc, recorder.process))
                if why or asking:
                    self._missing[recorder] = why or "it was not asked, and its watchdog wrote none"

    def _why_no_answer(self, recorder: Recorder) -> str:
        gone = why_not_running(state_of(self._proc, recorder.process))
        if gone is not None:
            return f"asked through its pipe, and then {gone}"
        settings = recorder.settings
        if settings.pipe_poll > POLL_SECONDS * 50:
            return (
                f"asked through its pipe, which it looks into every {settings.pipe_poll:.0f} s only "
                "(TORCH_NCCL_DUMP_ON_TIMEOUT is off)"
            )
        stacks = (
            f"; with the interpreter's lock held somewhere it leaves the stacks out after {settings.dump_wait:.0f} s "
            "(TORCH_INCLUDE_STACK_TRACE=0 spares that)"
            if settings.with_stacks
            else ""
        )
        return f"asked through its pipe, and no dump had come by the deadline{stacks}"
