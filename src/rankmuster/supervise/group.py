"""The process group of this host: one incarnation at a time, started whole and ended whole, and remembered."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.collect.proc import Proc
from rankmuster.collect.proc_text import Stat
from rankmuster.model.incident import GroupLook, GroupState
from rankmuster.model.run_record import MAX_EARLIER, MAX_ROSTER, Known, Operation, Record
from rankmuster.supervise import naming, processes, record, start_environment
from rankmuster.supervise.ending import Ended, end
from rankmuster.supervise.gpus import BEFORE_SECONDS, Freed, GpuUse, Look, freed
from rankmuster.supervise.launch import launch
from rankmuster.supervise.left import Left, describe
from rankmuster.supervise.life import LifeNotes
from rankmuster.supervise.processes import Sent
from rankmuster.supervise.settings import RunSettings

Send = Callable[[Stat, int], Sent]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of an ending. `left`: processes that live on."""

    ended: Ended
    left: tuple[Left, ...]
    seconds: float


class HostGroup:
    """All but `look` is called in the main thread alone.

    `tell`: writes one line for the operator. `gpus`: NVML's view. `send`: signals one process.
    """

    def __init__(
        self,
        settings: RunSettings,
        environment: Mapping[str, str],
        file: Path,
        tell: Callable[[str], None],
        gpus: Look,
        *,
        remembered: Record | None = None,
        boot: str | None = None,
        helpers: set[int] | None = None,
        send: Send = processes.send,
        clock: Clock = time.monotonic,
        unix_now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._file = file
        self._tell = tell
        self._gpus = gpus
        self._send = send
        self.clock = clock
        self._unix_now = unix_now
        self._boot = naming.boot_id() if boot is None else boot
        self.host = socket.gethostname()
        own = Proc(processes.PROC).stat(os.getpid())
        me = Known(pid=os.getpid(), ticks=own.start_ticks if own is not None else 0)
        kept = remembered if remembered is not None and remembered.boot == self._boot else None
        self._record = (
            replace(kept, instance=settings.name, supervisor=me, ended=True, roster=())
            if kept is not None
            else Record(instance=settings.name, boot=self._boot, supervisor=me)
        )
        self._lock = threading.Lock()
        self._phase = GroupState.STARTING
        self._note = ""
        self._launched: subprocess.Popen[bytes] | None = None
        self._notes: LifeNotes | None = None
        self._starts = 0
        self._helpers: set[int] = set() if helpers is None else helpers
        self._had: set[int] = set()
        # before it has started anything: the shell that became this process may have had others running
        strangers = processes.below(processes.table(), (os.getpid(),))
        self._strangers = {(one.pid, one.start_ticks) for one in strangers.values()}
        self.told_to_end = False
        self._before: Mapping[int, GpuUse] | None = None
        self._unsaved = False
        self.profile = "none"

    # -- what there is -------------------------------------------------------------------------------------------------

    @property
    def record(self) -> Record:
        """What is remembered, as it is now."""
        return self._record

    @property
    def incarnation(self) -> str | None:
        """Of what runs, or ran last."""
        return self._record.incarnation

    @property
    def living(self) -> bool:
        """Whether an incarnation is not wholly gone."""
        return not self._record.ended

    def launcher_status(self) -> int | None:
        """Exit status of the command itself, None while it runs or where there is none."""
        return None if self._launched is None else processes.ended(self._launched.pid)

    def members(self) -> dict[int, Stat]:
        """The processes of the group that live; those that have ended are collected, but for the launcher, whose
        number stays its own until all are gone."""
        self.collect()
        found = self._below()
        self._had.update(found)
        return found

    def collect(self) -> None:
        """Takes the exit statuses of those that have ended and have come to us."""
        keep = {self._launched.pid} if self._launched is not None else set()
        found = processes.reap(self._helpers, keep)
        if self._notes is not None:
            self._notes.reaped(found)

    def _below(self) -> dict[int, Stat]:
        listed = processes.table()
        without = set(self._helpers)
        if self._strangers:
            living = {pid for pid, stat in listed.items() if (pid, stat.start_ticks) in self._strangers}
            theirs = processes.below(listed, living)
            # what they started is theirs for good, also once it comes to us as an orphan
            self._strangers = {(pid, listed[pid].start_ticks) for pid in (*living, *theirs)}
            without |= living
        found = processes.below(listed, (os.getpid(),), frozenset(without))
        return {pid: stat for pid, stat in found.items() if processes.lives(stat)}

    def look(self) -> GroupLook:
        """At any time, in any thread."""
        with self._lock:
            said, phase, note = self._record, self._phase, self._note
        found: dict[int, Stat] = {}
        if not said.ended:
            found = self._below()
            launcher = said.launcher
            gone = launcher is None or launcher.pid not in found
            if phase is GroupState.RUNNING and gone:
                phase = GroupState.PARTLY
        ended = said.life.ended if said.life is not None and phase is GroupState.ENDED else None
        return GroupLook(
            state=phase,
            incarnation=said.incarnation,
            operation=said.operation,
            hosts=(self.host,),
            pids=tuple(sorted(found)),
            ended_by_itself=said.ended_by_itself,
            exit_status=said.exit_status,
            at=said.at if ended is None else ended,
            note=note,
        )

    # -- starting ------------------------------------------------------------------------------------------------------

    def start(
        self, operation: str | None = None, wished: Mapping[str, str] | None = None, suspect: str | None = None
    ) -> str:
        """A new incarnation; its name. Raises CannotLaunch and BadWish; then nothing runs."""
        assert not self.living
        self._starts += 1
        now = self._unix_now()
        name = naming.incarnation(now, os.getpid(), self._starts, self._boot)
        made = start_environment.make(self._settings, self._environment, name, wished=wished, suspect=suspect)
        for note in made.notes:
            self._tell(note)
        if self._before is None:
            self._before = self._gpus(BEFORE_SECONDS)
        earlier = self._record.earlier
        if self._record.incarnation is not None:
            earlier = (*earlier, self._record.incarnation)[-MAX_EARLIER:]
        # written before the deed: who comes after a crash has to know what to look for
        self._notes = notes = LifeNotes(self._settings, made, self._unix_now)
        self._set(
            replace(
                self._record, incarnation=name, operation=operation, at=now, launcher=None, ended=False, roster=(),
                life=notes.life, earlier=earlier, exit_status=None, ended_by_itself=False,
            ),
            GroupState.STARTING,
        )  # fmt: skip
        try:
            self._launched = launch(self._settings.command, made.environment, self._settings.log)
        except Exception as error:
            notes.is_ended_by(f"nobody: it was not begun ({error})")
            notes.ended()
            self._set(replace(self._record, ended=True, life=notes.life), GroupState.ENDED)
            raise
        self._had = set()
        self.told_to_end = False
        self.profile = made.profile
        stat = Proc(processes.PROC).stat(self._launched.pid)
        launcher = Known(pid=self._launched.pid, ticks=stat.start_ticks if stat is not None else 0)
        if stat is not None:
            notes.look({stat.pid: stat})
        self._set(replace(self._record, launcher=launcher, roster=(launcher,), life=notes.life), GroupState.RUNNING)
        return name

    # -- ending --------------------------------------------------------------------------------------------------------

    def end(
        self,
        grace: float,
        deadline: Deadline,
        *,
        by: str = "",
        by_itself: bool = False,
        hurry: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """Every process of the incarnation that runs. Returns by the deadline, or just after. `by`: who wants that.
        Raises OSError where processes cannot be seen."""
        begun = self.clock()
        self.told_to_end = not by_itself
        if self._notes is not None:
            if self._launched is not None:
                self._notes.launcher_ended(self._launched.pid)
            if not by_itself:
                self._notes.is_ended_by(by or "the supervisor")
        self._set(self._record, GroupState.ENDING)
        came = end(_World(self, self._notes, self._send), grace, deadline, hurry)
        left = tuple(describe(stat, stat.pid in came.refused) for stat in came.left)
        if left:
            note = f"{len(left)} process(es) cannot be ended"
            self._set(self._record, GroupState.PARTLY, note)
        else:
            self._gone(by_itself=by_itself)
        return Outcome(came, left, self.clock() - begun)

    def settle(self) -> None:
        """Of one that could not be ended: whether the last of it has gone since."""
        if self.living and self.told_to_end and not self.members():
            self._gone(by_itself=False)

    def starts_again(self, seconds: float) -> None:
        """What has ended is not over: whoever looks is told so."""
        self._set(self._record, GroupState.STARTING, f"it is started again in {seconds:g} s")

    def stays_ended(self) -> None:
        """Nobody starts it again but a caller."""
        if not self.living:
            self._set(self._record, GroupState.ENDED)

    def _gone(self, *, by_itself: bool) -> None:
        status = self.launcher_status()
        if self._launched is not None:
            if self._notes is not None:
                self._notes.launcher_ended(self._launched.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._launched.wait(0)
            self._launched = None
        self.collect()
        if self._notes is not None:
            self._notes.ended()
        self._set(
            replace(
                self._record,
                ended=True,
                exit_status=status,
                ended_by_itself=by_itself,
                roster=(),
                life=self._notes.life if self._notes is not None else None,
            ),
            GroupState.ENDED,
        )

    def gpus_freed(self, deadline: Deadline) -> Freed:
        """Of an incarnation that has ended."""
        return freed(
            self._before,
            self._gpus,
            frozenset(self._had),
            deadline,
            time.sleep,
            host_pids=Proc(processes.PROC).initial_pid_namespace(),
        )

    # -- remembering ---------------------------------------------------------------------------------------------------

    def remember(self, operation: Operation) -> None:
        """In place of what was known of it."""
        others = [one for one in self._record.operations if one.name != operation.name]
        kept = tuple([*others, operation][-MAX_EARLIER:])
        self._set(replace(self._record, operations=kept), self._phase, self._note)

    def note_roster(self) -> None:
        """Who belongs to it now, for whoever comes after a killed supervisor."""
        found = self.members()
        roster = tuple(Known(pid=one.pid, ticks=one.start_ticks) for one in found.values())[:MAX_ROSTER]
        life = self._notes.life if self._notes is not None and self._notes.look(found) else self._record.life
        if life is not self._record.life or roster != self._record.roster or self._unsaved:
            self._set(replace(self._record, roster=roster, life=life), self._phase, self._note)

    def _set(self, said: Record, phase: GroupState, note: str = "") -> None:
        with self._lock:
            self._record, self._phase, self._note = said, phase, note
        try:
            record.write(self._file, said)
            self._unsaved = False
        except OSError as error:
            if not self._unsaved:
                self._tell(
                    f"{self._file} cannot be written ({error.strerror or error}): if this supervisor is killed, the "
                    "next one knows less of what runs"
                )
            self._unsaved = True


@dataclass(frozen=True)
class _World:
    group: HostGroup
    notes: LifeNotes | None
    sender: Send

    def members(self) -> Mapping[int, Stat]:
        found = self.group.members()
        if self.notes is not None:
            self.notes.look(found)
        return found

    def send(self, stat: Stat, number: int) -> Sent:
        said = self.sender(stat, number)
        if said is Sent.SENT and number != signal.SIGCONT and self.notes is not None:
            self.notes.signalled(stat, number)
        return said

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)
