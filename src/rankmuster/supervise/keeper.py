"""The loop of `rankmuster run`: the command's end, callers' wishes and signals, one after the other in one thread."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.adapters import supervisor_wire as wire
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending
from rankmuster.supervise import operations
from rankmuster.supervise.back_off import BackOff
from rankmuster.supervise.group import HostGroup
from rankmuster.supervise.jobs import Job, Jobs
from rankmuster.supervise.launch import CannotLaunch
from rankmuster.supervise.left import told
from rankmuster.supervise.settings import OnEnd, RunSettings

FAILED = 125
"""Exit status where run itself failed, as `timeout` and `docker run` have it."""

ROSTER_SECONDS = 5.0
"""Between two notes of who belongs to the group."""
FIRST_ROSTER_SECONDS = 1.0
EARLY_SECONDS = 60.0
"""So long after a start they follow each other more closely: ranks come, and may go before anybody has met them."""

END_SECONDS = 20.0
"""After the grace: what sleeps in a driver takes seconds to be gone. Callers wait meanwhile, and have 30 s or so."""

FREE_SECONDS = 10.0
"""Before a restart, for GPU memory to come free."""

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Keeper:
    """`run` is to be called in the main thread, `handle` in any."""

    def __init__(self, settings: RunSettings, group: HostGroup, tell: Callable[[str], None]) -> None:
        self._settings = settings
        self._group = group
        self._tell = tell
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._signals: list[int] = []
        self._jobs = Jobs(self._wake)
        self._back_off = BackOff(settings.restarts, settings.within)
        self._restart_at: float | None = None
        self._roster_at = self._early_until = 0.0

    # -- callers -------------------------------------------------------------------------------------------------------

    def handle(self, request: dict[str, Any]) -> Mapping[str, Any]:
        """One request of the control socket. Raises NotUnderstood."""
        ask = wire.text_of(request, "ask", 40)
        if ask == "look":
            return {"look": _plain_look(self._group), "about": self._about()}
        operation = wire.text_of(request, "operation", 500)
        deadline = Deadline.after(wire.number_of(request, "seconds", 0.0, wire.MAX_SECONDS), self._group.clock)
        if ask == "terminate":
            incarnation = wire.optional_text(request, "incarnation", 500)
            job = Job("terminate", lambda: self._terminate(incarnation, operation, deadline), deadline)
        elif ask == "start":
            after, wish = wire.optional_text(request, "after", 500), operations.read_wish(request.get("wish"))
            job = Job("start", lambda: self._start(after, operation, wish), deadline)
        else:
            raise wire.NotUnderstood(f"'ask' is {ask!r}, not look, terminate or start")
        answer = self._jobs.ask(job)
        return {"answer": {"ending": answer.ending.value, "note": answer.note, "data": dict(answer.data)}}

    def _about(self) -> Mapping[str, Any]:
        return {
            "host": self._group.host,
            "pid": os.getpid(),
            "instance": self._settings.name,
            "command": [one[:200] for one in self._settings.command[:50]],
            "on_end": self._settings.on_end.value,
            "profile": self._group.profile,
            "log": self._settings.log,
            "metrics_url": self._settings.metrics_url,
        }

    def _terminate(self, incarnation: str | None, operation: str, deadline: Deadline) -> Answer:
        answer = operations.terminate(
            self._group, incarnation, operation, deadline, self._settings.grace, lambda: bool(self._signals)
        )
        if self._restart_at is not None and answer.ending is Ending.DONE:
            self._restart_at = None  # whoever ends it decides when it is started again
            self._group.stays_ended()
        self._tell(f"terminate ({operation}): {answer.ending.value}: {answer.note}")
        return answer

    def _start(self, after: str | None, operation: str, wish: operations.Wish) -> Answer:
        answer = operations.start(self._group, after, operation, wish)
        if self._group.living:
            self._restart_at = None
            self._look_soon()
        self._tell(f"start ({operation}): {answer.ending.value}: {answer.note}")
        return answer

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Starts the command, and stays until its end, or a signal's; the exit status."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda got, _: self._signals.append(got))
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler, so that it wakes the loop
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        try:
            return self._run()
        finally:
            signal.set_wakeup_fd(-1)
            self._jobs.close("this supervisor ends")

    def _run(self) -> int:
        status = self._begin()
        while status is None:
            if self._signals:
                return self._end_by_signal(self._signals[0])
            group = self._group
            if group.living and not group.told_to_end and group.launcher_status() is not None:
                status = self._own_end()
            elif self._jobs.run_next():
                continue
            elif self._restart_at is not None and self._group.clock() >= self._restart_at:
                self._restart_at = None
                status = self._begin()
            else:
                self._look_after()
                self._sleep()
        return status

    def _begin(self) -> int | None:
        """Starts the command; the exit status where that cannot be done."""
        try:
            name = self._group.start()
        except CannotLaunch as error:
            self._tell(str(error))
            return error.status
        self._tell(f"{self._settings.name} runs as incarnation {name}, profile: {self._group.profile}")
        self._look_soon()
        return None

    def _own_end(self) -> int | None:
        """The command has ended by itself: what it left is ended; the exit status where that is the end of run, too."""
        status = self._group.launcher_status() or 0
        deadline = Deadline.after(self._settings.grace + END_SECONDS, self._group.clock)
        came = self._group.end(self._settings.grace, deadline, by_itself=True, hurry=lambda: bool(self._signals))
        if came.left:
            self._tell(
                f"the command has ended with status {status}, and what it started cannot be ended: {told(came.left)}"
            )
            if self._settings.on_end is not OnEnd.WAIT:
                return FAILED
            self._group.told_to_end = True  # a caller may try again, and is told what lives on
            return None
        rest = f"; {came.ended.ended} process(es) that it left were ended" if came.ended.ended else ""
        self._tell(f"the command has ended with status {status}{rest}")
        if self._settings.on_end is OnEnd.EXIT:
            return status
        if self._settings.on_end is OnEnd.RESTART:
            wait = self._back_off.next(self._group.clock())
            if wait is None:
                self._tell(
                    f"it is not started again: {self._settings.restarts} time(s) within {self._settings.within:g} s "
                    "were enough"
                )
                return status
            self._tell(f"the whole group is started again in {wait:g} s")
            self._group.starts_again(wait)
            self._free_gpus()
            self._restart_at = self._group.clock() + wait
        return None

    def _end_by_signal(self, number: int) -> int:
        self._tell(f"{signal.Signals(number).name}: the group is ended")
        if self._group.living:
            deadline = Deadline.after(self._settings.grace + END_SECONDS, self._group.clock)
            # a second signal is for somebody who does not want to wait
            came = self._group.end(
                self._settings.grace,
                deadline,
                by=f"{signal.Signals(number).name} to the supervisor",
                hurry=lambda: len(self._signals) > 1,
            )
            if came.left:
                self._tell(f"what is left cannot be ended: {told(came.left)}")
                return FAILED
        return 128 + number

    def _sleep(self) -> None:
        moments = [self._restart_at] if self._restart_at is not None else []
        if self._group.living:
            moments.append(self._roster_at)
        wait = max(min(moments) - self._group.clock(), 0.0) if moments else None
        select.select([self._reading], [], [], wait)
        with contextlib.suppress(BlockingIOError):
            while os.read(self._reading, 4096):
                pass
        self._group.collect()
        with contextlib.suppress(OSError):
            self._group.settle()

    def _look_soon(self) -> None:
        self._roster_at = self._group.clock() + FIRST_ROSTER_SECONDS
        self._early_until = self._group.clock() + EARLY_SECONDS

    def _look_after(self) -> None:
        """Who belongs to the group, now and then; and whether what could not be ended has gone."""
        if not self._group.living or self._group.clock() < self._roster_at:
            return
        early = self._group.clock() < self._early_until
        self._roster_at = self._group.clock() + (FIRST_ROSTER_SECONDS if early else ROSTER_SECONDS)
        with contextlib.suppress(OSError):
            self._group.note_roster()

    def _free_gpus(self) -> None:
        said = self._group.gpus_freed(Deadline.after(FREE_SECONDS, self._group.clock))
        if said.free is False:
            self._tell(f"it is started again all the same: {said.note}")

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._writing, b"w")


def _plain_look(group: HostGroup) -> dict[str, Any]:
    said = group.look()
    return {
        "state": said.state.value,
        "incarnation": said.incarnation,
        "operation": said.operation,
        "hosts": list(said.hosts),
        "pids": list(said.pids[: wire.MAX_PIDS]),
        "ended_by_itself": said.ended_by_itself,
        "exit_status": said.exit_status,
        "at": said.at,
        "note": said.note,
    }
