"""What `scontrol show job ID` says of one job, as a process group: which run of it, and in which state.

A run is called `slurm-ID.RESTARTS`: Slurm counts the restarts of a job itself, and counts one more at the very moment
when it begins to end a run that it will start again. A run's start time would say no more, and is not known before it.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from rankmuster.model.incident import GroupState
from rankmuster.report.inert import plain

RUNNING = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"})
COMING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
CANCELLED = frozenset({"CANCELLED", "PREEMPTED", "REVOKED"})
ENDED = CANCELLED | {
    *("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "LAUNCH_FAILED"),
    "RECONFIG_FAIL",
}
"""States of a job, by squeue(1), JOB STATE CODES."""

HELD_BY_PEOPLE = ("JobHeldUser", "JobHeldAdmin")
"""Reasons of a hold that somebody asked for; `requeuehold` gives `job_requeued_in_held_state`."""

_RECORD = re.compile(r"^JobId=(\d+)(?: ArrayJobId=(\d+) ArrayTaskId=(\S+))?", re.MULTILINE)
_STATE = re.compile(r"^\s+JobState=(\S+) Reason=(\S+)", re.MULTILINE)
_PRIORITY = re.compile(r"^\s+Priority=(\d+)", re.MULTILINE)
_COUNTS = re.compile(r"^\s+Requeue=(\d+) Restarts=(\d+) BatchFlag=(\d+)", re.MULTILINE)
_EXIT = re.compile(r"\bExitCode=(\d+):(\d+)")
_TIMES = re.compile(r"^\s+StartTime=(\S+) EndTime=(\S+)", re.MULTILINE)
_LISTS = re.compile(r"^\s+ReqNodeList=(\S*) ExcNodeList=(\S*)", re.MULTILINE)
_NODES = re.compile(r"^\s+NodeList=(\S*)", re.MULTILINE)
_RUN = re.compile(r"slurm-(\d+(?:_\d+)?)\.(\d+)")


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """`id`: as it was asked for. `restarts`: so often it was started again. `excluded`, `nodes`: lists as Slurm writes
    them, `n[1-3]`. `start`, `end`: unix seconds."""

    id: str
    state: str
    reason: str
    held: bool
    requeue: bool
    batch: bool
    restarts: int
    excluded: str
    nodes: str
    exit_status: int
    start: float | None
    end: float | None

    @property
    def group_state(self) -> GroupState:
        if self.state == "COMPLETING":
            return GroupState.ENDING
        if self.state in ENDED or (self.state in COMING and self.held):
            return GroupState.ENDED
        if self.state in RUNNING:
            return GroupState.RUNNING
        return GroupState.STARTING if self.state in COMING else GroupState.UNKNOWN

    @property
    def run(self) -> int | None:
        """The number of the run that runs, is coming, is ending or was last; None where there was none."""
        again = self.state == "COMPLETING" and self.end is None  # it goes back to the queue
        if again or (self.state in COMING and self.held):
            return self.restarts - 1 if self.restarts > 0 else None
        return self.restarts

    @property
    def incarnation(self) -> str | None:
        return None if self.run is None else incarnation_of(self.id, self.run)

    @property
    def words(self) -> str:
        """For people."""
        held = ", held" if self.held and self.state in COMING else ""
        where = f" on {plain(self.nodes, 120)}" if self.nodes else ""
        reason = f" ({plain(self.reason, 80)})" if self.reason not in ("", "None") else ""
        return f"job {self.id} is {self.state}{held}{where}{reason}, restarted {self.restarts} times"


def incarnation_of(job: str, run: int) -> str:
    return f"slurm-{job}.{run}"


def run_of(incarnation: str) -> tuple[str, int] | None:
    """Job and number of the run; None for a name that is not one of ours."""
    found = _RUN.fullmatch(incarnation)
    return (found[1], int(found[2])) if found is not None else None


def read_job(text: str, asked: str) -> SlurmJob | str:
    """The job that was asked for, or why that is not what was answered."""
    records = list(_RECORD.finditer(text))
    if len(records) > 1:
        return (
            f"job {asked} is {len(records)} jobs (an array, or a heterogeneous job), which cannot be ended and "
            "started as one; name one task, like 123_4"
        )
    state, counts, lists = _STATE.search(text), _COUNTS.search(text), _LISTS.search(text)
    if not records or state is None or counts is None or lists is None:
        return f"scontrol was asked for job {asked}, and its answer is no description of a job"
    ids = {records[0][1], f"{records[0][2]}_{records[0][3]}"}
    if asked not in ids:
        return f"scontrol was asked for job {asked}, and answered with job {records[0][1]}"
    priority, ended, times, nodes = (one.search(text) for one in (_PRIORITY, _EXIT, _TIMES, _NODES))
    code, number = (int(ended[1]), int(ended[2])) if ended is not None else (0, 0)
    return SlurmJob(
        id=asked,
        state=state[1].partition("+")[0],
        reason=state[2],
        held=priority is not None and priority[1] == "0",
        requeue=counts[1] != "0",
        batch=counts[3] != "0",
        restarts=int(counts[2]),
        excluded="" if lists[2] == "(null)" else lists[2],
        nodes="" if nodes is None or nodes[1] == "(null)" else nodes[1],
        exit_status=128 + number if number else code,
        start=_time(times[1]) if times is not None else None,
        end=_time(times[2]) if times is not None else None,
    )


def _time(text: str) -> float | None:
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
