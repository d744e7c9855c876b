"""A run of a Slurm job that was told to end, until it has: Slurm kills what ignores SIGTERM, and what outlives that is
the node's.
"""

from __future__ import annotations

from collections.abc import Callable

from rankmuster.adapters.scontrol import Said
from rankmuster.adapters.slurm_find import SlurmJobs
from rankmuster.adapters.slurm_job import SlurmJob
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, GroupState

POLL_SECONDS = 0.3
"""Between two looks while a run ends: slurmctld answers in milliseconds, and others ask it too."""

LAST_LOOK = 0.5
"""Of a deadline, kept for the answer."""

KILL_MARGIN = 3.0
"""... and for what was killed to be gone, before it counts as not killable."""


def wait_until_gone(jobs: SlurmJobs, found: SlurmJob, deadline: Deadline, pause: Callable[[float], None]) -> Answer:
    """Looks until no step of its run is left. NODE where one outlives SIGKILL."""
    meant = found.incarnation
    begun = deadline.clock()
    wait = jobs.kill_wait(deadline.within(2.0))
    seen: SlurmJob | Said | None = found
    while deadline.remaining() > LAST_LOOK:
        seen = jobs.find(deadline.before(LAST_LOOK / 2))
        if seen is None:
            return Answer(ending=Ending.DONE, note=f"its run is gone: {jobs.forgotten}")
        if isinstance(seen, SlurmJob):
            if seen.group_state is GroupState.ENDED:
                return Answer(ending=Ending.DONE, note=f"all steps of {meant} are gone: {seen.words}")
            if seen.group_state is not GroupState.UNKNOWN and seen.incarnation != meant:
                note = f"{meant} is gone; Slurm, or somebody, has begun another run: {seen.words}"
                return Answer(ending=Ending.DONE, note=note)
        pause(min(POLL_SECONDS, max(deadline.remaining() - LAST_LOOK, 0.0)))
    took = deadline.clock() - begun
    if not isinstance(seen, SlurmJob) or seen.group_state is not GroupState.ENDING:
        how = told(jobs, seen)
        return Answer(ending=Ending.TIMED_OUT, note=f"after {took:.0f} s it is not known to have ended: {how}")
    if took < wait + KILL_MARGIN:
        return Answer(
            ending=Ending.TIMED_OUT,
            note=f"it is still ending after {took:.0f} s ({seen.words}); Slurm kills after KillWait, {wait:.0f} s: "
            f"give the step terminate {wait + 2 * KILL_MARGIN:.0f} s or more",
        )
    hosts = jobs.hosts(seen.nodes, deadline) or ((seen.nodes,) if seen.nodes else ())
    return Answer(
        ending=Ending.NODE,
        note=f"{took:.0f} s after it was told to end, steps are still there ({seen.words}): what cannot be killed "
        "there, only the node's owner can end",
        data={"node": hosts[0] if hosts else None, "nodes": list(hosts), "pids": []},
    )


def told(jobs: SlurmJobs, seen: SlurmJob | Said | None) -> str:
    """What was seen, in words."""
    if isinstance(seen, SlurmJob):
        return seen.words
    return seen.problem if seen is not None else jobs.forgotten
