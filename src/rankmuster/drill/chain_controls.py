"""The controls of a drill: an engine that is well, under the same watch and runbook as the faults. Nobody may act.

They take turns on one stand, since one that was left alone goes on; after one that was not, the next gets a stand anew.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.adapters.supervisor import Supervisor
from rankmuster.collect.deadline import Deadline
from rankmuster.drill.card import Shape, blank
from rankmuster.drill.card_controls import Beside, DrillControl
from rankmuster.drill.contend import PROGRAM as CONTEND
from rankmuster.drill.control_load import Clients, ControlLoad
from rankmuster.drill.controls import PAUSE_SECONDS
from rankmuster.drill.incident_journal import incidents_in
from rankmuster.drill.incident_once import FIRST, IncidentOrder
from rankmuster.drill.incident_stand import Stand, StandFailed
from rankmuster.drill.launch import Launched
from rankmuster.drill.plan import Backend
from rankmuster.drill.usage import usage_of
from rankmuster.drill.watched import WARM_SECONDS, alarms_of, sees_work
from rankmuster.model.drill_run import DrillRun
from rankmuster.model.drill_score import quiet
from rankmuster.model.incident import Ending, StartWish
from rankmuster.store.errors import HistoryError
from rankmuster.watch.progress.model import Event

Keep = Callable[[DrillRun], None]

MOMENT = 0.4
"""Part of a control after which what is done besides is done: the watch has seen it well, and sees what comes after."""
ANSWER_SECONDS = 60.0
"""For answers that are on their way when a control ends: two long prompts."""
OPERATION_SECONDS = 60.0
"""For the supervisor to end the group, and to start it."""
LOOKS = 3
"""In which a stop is told: a prompt that takes no longer proves nothing."""
FOREIGN_SHARE = 0.05
"""Of a processor, that the foreign program has at least in each part of its control: it never rests, and even among
many ranks on few processors it gets more."""
SETTLE_SECONDS = 25.0
"""In which the watch must come to say what it must say in the end: it searches every 15 s for an instance that was gone
(`find_seconds`), and wants three looks at it."""


def run_controls(
    order: IncidentOrder, controls: Sequence[DrillControl], folder: Path, keep: Keep, *, quick: bool = False
) -> None:
    """`folder` exists. `keep` is given each row as it comes. Never raises for what can go wrong in them."""
    left, number = list(controls), 0
    while left:
        first, done = left[0], 0
        place = folder / f"controls-{number}"
        place.mkdir()
        try:
            with _stand(order, first, number, place.resolve()) as stand:
                _warm(stand, order, first, place)
                for control in left:
                    if control.load_seconds != first.load_seconds:
                        break
                    row = _one(stand, order, control, place, quick=quick)
                    keep(row)
                    done += 1
                    if not quiet(row):
                        break
        except (StandFailed, OSError, HistoryError) as error:
            if done < len(left):
                keep(replace(_blank(order, left[done]), made=False, wrongs=(str(error),)))
                done += 1
        left, number = left[done:], number + 1


def _blank(order: IncidentOrder, control: DrillControl) -> DrillRun:
    stand = order.stand
    return blank(control.name, "control", Shape(stand.backend, stand.ranks, order.culprit, stand.graph))


def _stand(order: IncidentOrder, control: DrillControl, number: int, folder: Path) -> Stand:
    wanted = order.stand
    load = [f"--load-seconds={control.load_seconds:g}"] if control.load_seconds else []
    wanted = replace(wanted, instance=f"{wanted.instance}-controls-{number}", engine=(*wanted.engine, *load))
    return Stand(wanted, folder, None)


def _warm(stand: Stand, order: IncidentOrder, control: DrillControl, folder: Path) -> None:
    """Until the watch has seen it work: what comes after is then no start. Raises StandFailed."""
    begun = time.monotonic()
    stand.until(lambda: stand.serves(FIRST), order.start_seconds + control.load_seconds, "serving")
    stand.keep_settings()
    with ControlLoad(Clients.BUSY, stand.address, folder, count=order.clients, seed=order.seed) as load:
        if not sees_work(stand.watcher, time.monotonic(), WARM_SECONDS):
            raise StandFailed(f"the watch saw no work within {WARM_SECONDS:.0f} s")
        load.stop(ANSWER_SECONDS)
    if told := alarms_of(stand.watcher.looks, begun):
        raise StandFailed(f"an engine that started was told as: {'; '.join(told)}")


def _one(stand: Stand, order: IncidentOrder, control: DrillControl, folder: Path, *, quick: bool) -> DrillRun:
    """One control. Raises StandFailed, OSError or HistoryError when a program of the stand has ended."""
    run = _blank(order, control)
    seconds = control.quick_seconds if quick else control.seconds
    before, begun = incidents_in(stand.places.journal), time.monotonic()
    once: frozenset[str] = frozenset()
    wrongs: list[str] = []
    with ExitStack() as ends:
        load = ends.enter_context(
            ControlLoad(control.clients, stand.address, folder, count=order.clients, seed=order.seed)
        )
        foreign = _foreign(stand, folder, ends) if control.beside is Beside.FOREIGN else ()
        _pass(stand, begun + MOMENT * seconds)
        wrongs += [wrong for one in foreign for wrong in one.rested()]
        if control.beside is Beside.RESTART:
            once = frozenset({Event.GONE.value, Event.LOST_SIGHT.value})  # nothing is there to be seen
            wrongs += _restart(stand, order.start_seconds)
        elif control.beside is Beside.PAUSED_FRONT:
            _pause_front(stand)
        _pass(stand, begun + seconds)
        wrongs += [wrong for one in foreign for wrong in one.rested()]
        wanted = [state.value for state in control.states]
        look = stand.watcher.until(lambda look: look.state in wanted, SETTLE_SECONDS, since=time.monotonic())
        came = load.stop(ANSWER_SECONDS)
    if look is None:
        last = stand.watcher.looks[-1:]
        said = f"{last[0].state} ({last[0].view.get('reason')})" if last else "nothing"
        wrongs.append(f"the watch said {said} in the end, not {' or '.join(wanted)}")
    if came.lost:
        wrongs.append(f"{came.lost} request(s) had no answer and no error")
    if control.clients is Clients.LONG and came.longest < LOOKS * stand.wanted.period:
        wrongs.append(f"the longest prompt took {came.longest:.1f} s: nothing could have been told in it")
    looks = [one for one in stand.watcher.looks if one.at >= begun]
    alarms = alarms_of(looks, begun, once=once)
    return replace(
        run,
        alarms=alarms,
        incidents=incidents_in(stand.places.journal) - before,
        wrongs=(*wrongs, *(f"told of an engine that is well: {alarm}" for alarm in alarms)),
    )


def _pass(stand: Stand, until: float) -> None:
    """Lets time pass. Raises StandFailed when a program ends."""
    while (left := until - time.monotonic()) > 0:
        stand.check()
        time.sleep(min(left, 0.5))


@dataclass(slots=True)
class Foreign:
    """The foreign program. `on_gpu`: its work is there, and its processor time says nothing. `cpu`: seconds that it
    had `at` (monotonic) when it was looked at last."""

    program: Launched
    on_gpu: bool
    at: float
    cpu: float = 0.0

    def rested(self) -> tuple[str, ...]:
        """What is wrong with its work since the last look, in words: then the control has proven nothing."""
        if self.program.end is not None:
            return (f"the program beside it ended with status {self.program.end.code}: nothing was beside it",)
        now, cpu = time.monotonic(), usage_of(self.program.pid).cpu
        worked, passed = cpu - self.cpu, now - self.at
        self.at, self.cpu = now, cpu
        if self.on_gpu or worked >= FOREIGN_SHARE * passed:
            return ()
        return (
            f"the program beside it had {max(worked, 0.0):.1f} s of a processor in {passed:.1f} s: it did not work",
        )


def _foreign(stand: Stand, folder: Path, ends: ExitStack) -> tuple[Foreign, ...]:
    gpu = ["--gpu", "0"] if stand.wanted.backend is Backend.NCCL else []
    count = 1 if gpu else max((os.cpu_count() or 1) // 2, 1)
    begun = []
    for _ in range(count):
        program = Launched([*CONTEND, "--parent", str(os.getpid()), *gpu], dict(os.environ), folder / "contend.log")
        ends.callback(program.kill)
        begun.append(Foreign(program, bool(gpu), time.monotonic()))
    return tuple(begun)


def _restart(stand: Stand, start_seconds: float) -> list[str]:
    """As an operator restarts it, by its supervisor. What went wrong. Raises StandFailed when it does not serve."""
    supervisor = Supervisor(stand.wanted.instance, stand.places.supervisor)
    before = stand.engine.numbers[-1]
    look = supervisor.look(Deadline.after(OPERATION_SECONDS))
    name = f"drill-{os.getpid()}-{time.monotonic_ns()}"
    ended = supervisor.terminate(look.incarnation, f"{name}-end", Deadline.after(OPERATION_SECONDS))
    begun = supervisor.start(look.incarnation, f"{name}-start", StartWish(), Deadline.after(OPERATION_SECONDS))
    found = [
        f"the supervisor did not {verb} the group: {answer.ending.value} ({answer.note})"
        for verb, answer in (("end", ended), ("start", begun))
        if answer.ending is not Ending.DONE
    ]
    if not found:
        stand.until(lambda: stand.serves(before + 1), start_seconds, "serving after its restart")
    return found


def _pause_front(stand: Stand) -> None:
    about = stand.about(stand.engine.numbers[-1])
    if about is None or about.front is None:
        raise StandFailed("the front end is not known")
    os.kill(about.front, signal.SIGSTOP)
    try:
        time.sleep(PAUSE_SECONDS)
    finally:
        os.kill(about.front, signal.SIGCONT)
