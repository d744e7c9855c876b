"""The one process that a drill hits, held by a descriptor: a signal through it reaches this process or nobody.

What was frozen is let go on in the end, and by a small process beside the drill where the drill itself is killed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.drill.own_job import NotAllowedHere, Victim, field_of, victim_of

KEEPER_SECONDS = 10.0
"""For the keeper to start, and to end: it takes some 50 ms."""
_KEEPER = """
import os, signal, sys
for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(one, signal.SIG_IGN)
os.write(1, b".")
if not os.read(0, 1):
    signal.pidfd_send_signal(int(sys.argv[1]), signal.SIGCONT)
"""
"""Waits on a pipe that only the drill holds the other end of: the kernel closes it when nobody else can."""


class _Keeper:
    """A process of its own session that lets the victim go on when the drill has ended, whatever ended it."""

    _why = "nothing was sent: the process that lets a frozen rank go on should the drill be killed"

    def __init__(self, descriptor: int) -> None:
        """Comes back once it waits. Raises NotAllowedHere when it does not come so far."""
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own words
                [sys.executable, "-I", "-S", "-c", _KEEPER, str(descriptor)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                start_new_session=True,
            )
        except OSError as error:
            raise NotAllowedHere(f"{self._why} could not be started ({error.strerror or error})") from error
        assert self._process.stdout is not None
        waits, _, _ = select.select([self._process.stdout], [], [], KEEPER_SECONDS)
        if not waits or not os.read(self._process.stdout.fileno(), 1):
            self.end(needed=False)
            raise NotAllowedHere(f"{self._why} did not start within {KEEPER_SECONDS:.0f} s")

    def end(self, *, needed: bool) -> None:
        """`needed`: it is to send SIGCONT before it ends."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError), process.stdin:
            if not needed:
                process.stdin.write(b".")
        try:
            process.wait(KEEPER_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@dataclass
class Held:
    """The victim by a descriptor of the kernel's: a signal through it reaches this process or nobody, whatever becomes
    of its number. To be used in a `with`; what was stopped and still stands is let go on at its end, and by a
    keeper where this process is killed before. `sent`: a signal was sent, or may have been."""

    victim: Victim
    machine: Machine = field(default_factory=Machine)
    sent: bool = False
    _descriptor: int = -1
    _stopped: bool = False
    _keeper: _Keeper | None = None

    def __enter__(self) -> Held:
        """Raises NotAllowedHere when the process has ended, or is another one by now."""
        victim = self.victim
        try:
            self._descriptor = os.pidfd_open(victim.pid)
        except OSError as error:
            raise NotAllowedHere(
                f"pid {victim.pid} cannot be held ({error.strerror or error}): it has ended"
            ) from error
        try:
            self._same_numbers()
            self._same()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.resume()
        finally:
            try:
                if self._keeper is not None:
                    self._keeper.end(needed=self._stopped)
            finally:
                os.close(self._descriptor)

    def send(self, number: int) -> float:
        """The signal, to this process alone, after everything was looked at once more. When it was sent, unix
        seconds. Raises NotAllowedHere when it is gone, or anything is not as it was."""
        self._looked_at_again()
        if number == signal.SIGSTOP and self._keeper is None:
            self._keeper = _Keeper(self._descriptor)
        at = time.time()
        sent_before, self.sent = self.sent, True
        self._stopped = self._stopped or number == signal.SIGSTOP  # before: an interruption may come right after it
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except OSError as error:
            self.sent = sent_before
            why = error.strerror or str(error)
            raise NotAllowedHere(f"signal {number} could not be sent to pid {self.victim.pid} ({why})") from error
        return at

    def resume(self) -> None:
        """SIGCONT where it was stopped by us; of one that has ended by now, nothing."""
        if self._stopped:
            with suppress(OSError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGCONT)
            self._stopped = False

    def _same_numbers(self) -> None:
        """The kernel's numbers are this /proc's: in another pid namespace's the same number is another process."""
        proc, pid = Proc(self.machine.proc), self.victim.pid
        if proc.own_pid() != os.getpid():
            raise NotAllowedHere(
                f"{proc.root} is of another pid namespace (it says {proc.own_pid()} of this program, which is "
                f"{os.getpid()}): run the drill where the job's numbers are its own; nothing was sent"
            )
        try:
            held = proc.read("self", f"fdinfo/{self._descriptor}") or b""
            status = proc.read(pid, "status") or b""
        except (NotAllowed, OSError) as error:
            raise NotAllowedHere(f"what is held of pid {pid} cannot be read ({error}): nothing was sent") from error
        if field_of(held, b"Pid") != [str(pid)] or field_of(held, b"NSpid") != field_of(status, b"NSpid"):
            raise NotAllowedHere(f"pid {pid} is not what {proc.root}/{pid} shows, or has ended: nothing was sent")

    def _same(self) -> None:
        """Looked at after it is held: what is seen now is what the descriptor stands for."""
        try:
            stat = Proc(self.machine.proc).stat(self.victim.pid)
        except (NotAllowed, OSError):
            stat = None
        if stat is None or stat.start_ticks != self.victim.start_ticks:
            raise NotAllowedHere(f"pid {self.victim.pid} is another process by now: nothing was sent")

    def _looked_at_again(self) -> None:
        """All is as at the first look: the instance allows it, and its rank is this process and program."""
        victim = self.victim
        now = victim_of(victim.instance, victim.rank, self.machine)
        if (now.pid, now.start_ticks) != (victim.pid, victim.start_ticks):
            raise NotAllowedHere(
                f"rank {victim.rank} of {victim.instance!r} is now pid {now.pid}, not {victim.pid}: nothing sent"
            )
        if (now.executable, now.command) != (victim.executable, victim.command):
            raise NotAllowedHere(
                f"pid {victim.pid} is another program than at first, or has another title: nothing was sent"
            )
