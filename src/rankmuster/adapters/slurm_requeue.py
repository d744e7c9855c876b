"""A Slurm batch job as a process group: it is ended whole by `scontrol requeuehold`, and started whole by `release`.

The job keeps its number, its script and its place; only the run changes. Slurm ends its processes with SIGTERM,
and with SIGKILL after KillWait (30 s unless configured). `scancel` is never used: on a job that is being requeued a
SIGKILL cancels it for good. Slurm would let a requeued job wait for two minutes (until credentials of the old run are
void), so its begin time is set to now, once all steps of the old run are gone.

`requeuehold` cannot be bound to a run: between our look and our call there are milliseconds in which Slurm itself could
have requeued the job, and a run that has just begun would be ended.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rankmuster.adapters.own_words import node_objection
from rankmuster.adapters.scontrol import Said, Scontrol
from rankmuster.adapters.slurm_find import NUMBER, SlurmJobs
from rankmuster.adapters.slurm_job import (
    CANCELLED,
    ENDED,
    HELD_BY_PEOPLE,
    SlurmJob,
    incarnation_of,
    run_of,
)
from rankmuster.adapters.slurm_own import Own, OwnNotes
from rankmuster.adapters.slurm_wait import LAST_LOOK, POLL_SECONDS, told, wait_until_gone
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, GroupLook, GroupState, StartWish
from rankmuster.report.inert import plain


class SlurmRequeue:
    """A `Group` of `incident.actuators`. `job`: its number (`123`, `123_4`), or its name. `notes`: a file in which what
    we add to the job's exclusions is kept, so that it is taken back later; None keeps it in memory."""

    elsewhere = True

    def __init__(
        self,
        job: str,
        *,
        name: str = "slurm_requeue",
        scontrol: str = "scontrol",
        notes: Path | None = None,
        environ: Mapping[str, str] | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self._job = job
        self._scontrol = Scontrol(scontrol, environ)
        self._jobs = SlurmJobs(job, self._scontrol)
        self._own = OwnNotes(notes)
        self._pause = pause

    def look(self, deadline: Deadline) -> GroupLook:
        found = self._jobs.find(deadline)
        if found is None:
            return GroupLook(state=GroupState.ENDED, note=self._jobs.forgotten)
        if isinstance(found, Said):
            return GroupLook(state=GroupState.UNKNOWN, note=found.problem)
        ended = found.state in ENDED
        return GroupLook(
            state=found.group_state,
            incarnation=found.incarnation,
            hosts=self._jobs.hosts(found.nodes, deadline),
            ended_by_itself=ended and found.state not in CANCELLED,
            exit_status=found.exit_status if ended else None,
            at=found.end if ended else found.start if found.group_state is GroupState.RUNNING else None,
            note=found.words,
        )

    def terminate(
        self,
        incarnation: str | None,
        operation: str,  # noqa: ARG002  # the number of its run binds it
        deadline: Deadline,
    ) -> Answer:
        """Puts the job back into the queue, held, and waits until no step of the run is left."""
        if incarnation is not None and run_of(incarnation) is None:
            note = f"{plain(incarnation, 80)!r} is no run of a Slurm job (slurm-ID.RESTARTS): nothing was ended"
            return Answer(ending=Ending.REFUSED, note=note)
        found = self._jobs.find(deadline)
        if found is None:
            return Answer(ending=Ending.DONE, note=f"nothing runs: {self._jobs.forgotten}")
        if isinstance(found, Said):
            return _unseen(found)
        if found.group_state is GroupState.ENDED:
            return Answer(ending=Ending.DONE, note=f"nothing runs: {found.words}")
        if incarnation is not None and found.incarnation != incarnation:
            note = f"{incarnation} is gone; {found.incarnation} is another one and was not touched: {found.words}"
            return Answer(ending=Ending.DONE, note=note)
        if found.group_state is GroupState.STARTING:
            return self._hold(found, deadline)
        if found.group_state is not GroupState.ENDING:
            objection = _objection(found)
            if objection:
                return Answer(ending=Ending.REFUSED, note=objection)
            # somebody's own hold goes on, and is known afterwards; requeuehold would take its place
            asked = self._scontrol.ask(["requeue" if found.held else "requeuehold", found.id], deadline)
            if asked.problem and not asked.late:
                return Answer(ending=Ending.FAILED, note=f"{found.words}, and was not requeued: {asked.problem}")
        return wait_until_gone(self._jobs, found, deadline, self._pause)

    def start(
        self,
        after: str | None,
        operation: str,  # noqa: ARG002  # the number of its run binds it
        wish: StartWish,
        deadline: Deadline,
    ) -> Answer:
        """Releases the job, with `avoid` beside the nodes that its owner excludes."""
        found = self._jobs.find(deadline)
        if found is None:
            note = f"{self._jobs.forgotten}: there is nothing to start again; submit it anew"
            return Answer(ending=Ending.REFUSED, note=note)
        if isinstance(found, Said):
            return _unseen(found)
        state = found.group_state
        if state in (GroupState.RUNNING, GroupState.STARTING):
            if after is not None and found.incarnation == after:
                return Answer(ending=Ending.FAILED, note=f"the run that was to be ended is still there: {found.words}")
            note = f"another run is there already, and no second one was started: {found.words}"
            return Answer(ending=Ending.DONE, note=note, data={"incarnation": found.incarnation, "by_others": True})
        if state is not GroupState.ENDED:
            return Answer(ending=Ending.FAILED, note=f"it cannot be started while the old run ends: {found.words}")
        own = self._own.of(found.id)
        objection = _start_objection(found, own)
        if objection:
            return Answer(ending=Ending.REFUSED, note=objection)
        if found.state in ENDED:
            again = self._requeued(found, deadline)
            if isinstance(again, Answer):
                return again
            found = again
        return self._release(found, own, wish, deadline)

    def would(self, verb: str, *, incarnation: str | None = None, wish: StartWish | None = None) -> tuple[str, ...]:
        """The command lines; of a job that is given by name the number is asked for first."""
        program = shlex.quote(self._scontrol.program)
        job = self._job if NUMBER.fullmatch(self._job) else f"<job {self._job}>"
        if verb == "terminate":
            only = f"  # if {incarnation} is what runs" if incarnation is not None else ""
            return (f"{program} requeuehold {job}{only}",)
        avoid = ",".join(wish.avoid) if wish is not None else ""
        more = f" ExcNodeList=<its own>,{avoid}" if avoid else ""
        lines = [f"{program} update JobId={job} StartTime=now{more}", f"{program} release {job}"]
        return (*lines, *([f"# {_unapplied(wish)}"] if wish is not None and _unapplied(wish) else []))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _hold(self, found: SlurmJob, deadline: Deadline) -> Answer:
        """A run that has not begun yet is kept from beginning."""
        try:
            own = self._own.of(found.id)
            self._own.keep(found.id, Own(own.added, found.incarnation))
        except OSError as error:
            return Answer(ending=Ending.FAILED, note=f"it cannot be noted that we hold it ({error.strerror or error})")
        asked = self._scontrol.ask(["hold", found.id], deadline)
        after = self._jobs.find(deadline)
        if isinstance(after, SlurmJob) and after.group_state is GroupState.ENDED:
            return Answer(ending=Ending.DONE, note=f"it had not begun, and is held: {after.words}")
        how = told(self._jobs, after)
        return Answer(ending=Ending.FAILED, note=f"it was to be held ({asked.problem or 'scontrol said yes'}): {how}")

    def _requeued(self, found: SlurmJob, deadline: Deadline) -> SlurmJob | Answer:
        """A job that has ended is put back into the queue, held."""
        asked = self._scontrol.ask(["requeuehold", found.id], deadline)
        while not asked.problem and deadline.remaining() > LAST_LOOK:
            seen = self._jobs.find(deadline)
            if isinstance(seen, SlurmJob) and seen.state not in ENDED and seen.group_state is GroupState.ENDED:
                return seen
            self._pause(min(POLL_SECONDS, max(deadline.remaining() - LAST_LOOK, 0.0)))
        ending = Ending.FAILED if asked.problem and not asked.late else Ending.TIMED_OUT
        return Answer(
            ending=ending, note=f"{found.words}, and does not come back: {asked.problem or 'no time is left'}"
        )

    def _release(self, found: SlurmJob, own: Own, wish: StartWish, deadline: Deadline) -> Answer:
        changes = ["StartTime=now"]
        objection = next((node_objection(node) for node in wish.avoid if node_objection(node)), "")
        if objection:
            return Answer(ending=Ending.REFUSED, note=f"nothing was started: of the nodes to avoid {objection}")
        if wish.avoid or own.added:
            now = self._jobs.hosts(found.excluded, deadline)
            if found.excluded and not now:
                note = f"nothing was started: which nodes {found.excluded} are could not be asked"
                return Answer(ending=Ending.FAILED, note=note)
            theirs = [node for node in now if node not in own.added]
            added = tuple(node for node in dict.fromkeys(wish.avoid) if node not in theirs)
            try:
                # Before it is done: what is noted and was not done is taken back without harm.
                self._own.keep(found.id, Own(tuple(dict.fromkeys((*own.added, *added))), own.held))
            except OSError as error:
                note = f"nothing was started: the nodes to avoid cannot be noted ({error.strerror or error})"
                return Answer(ending=Ending.FAILED, note=note)
            changes.append(f"ExcNodeList={','.join(sorted([*theirs, *added]))}")
        asked = self._scontrol.ask(["update", f"JobId={found.id}", *changes], deadline)
        if asked.problem:
            ending = Ending.TIMED_OUT if asked.late else Ending.FAILED
            return Answer(ending=ending, note=f"it stays held, since {' '.join(changes)} failed: {asked.problem}")
        asked = self._scontrol.ask(["release", found.id], deadline)
        after = self._jobs.find(deadline)
        if isinstance(after, SlurmJob) and after.group_state in (GroupState.STARTING, GroupState.RUNNING):
            if own.held is not None:
                with contextlib.suppress(OSError):  # a hold from now on is somebody else's
                    self._own.keep(found.id, Own(self._own.of(found.id).added))
            more = _unapplied(wish)
            note = f"it was released: {after.words}{f'; {more}' if more else ''}"
            return Answer(ending=Ending.DONE, note=note, data={"incarnation": incarnation_of(after.id, after.restarts)})
        how = told(self._jobs, after)
        late = asked.late or (isinstance(after, Said) and after.late)
        said = asked.problem or "scontrol said yes"
        return Answer(ending=Ending.TIMED_OUT if late else Ending.FAILED, note=f"it was to be released ({said}): {how}")


def _objection(job: SlurmJob) -> str:
    """Why it cannot be requeued; empty where it can."""
    if not job.batch:
        return f"job {job.id} is interactive (srun or salloc), which Slurm cannot start again: submit it with sbatch"
    if not job.requeue:
        return f"job {job.id} must not be requeued; its owner allows it with scontrol update JobId={job.id} Requeue=1"
    return ""


def _start_objection(job: SlurmJob, own: Own) -> str:
    if job.state in CANCELLED:
        return f"{job.words}: somebody has ended it for good; scontrol requeue {job.id} starts it again"
    if job.state in ENDED:
        return _objection(job)
    if job.reason in HELD_BY_PEOPLE and own.held != incarnation_of(job.id, job.restarts):
        return f"{job.words}: somebody else holds it; scontrol release {job.id} starts it again"
    return ""


def _unapplied(wish: StartWish) -> str:
    """What of the wish Slurm cannot do."""
    if not wish.environment and wish.suspect is None:
        return ""
    return "the environment of a job in the queue cannot be changed: no incident logging profile, no variables"


def _unseen(said: Said) -> Answer:
    several = "name one" in said.problem or "cannot be ended and" in said.problem
    ending = Ending.REFUSED if several else Ending.TIMED_OUT if said.late else Ending.FAILED
    return Answer(ending=ending, note=f"nothing was changed, since the job could not be looked at: {said.problem}")
