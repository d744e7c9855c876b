"""Which job of Slurm is meant, by its number or its name, and what Slurm says of it now."""

from __future__ import annotations

import re

from rankmuster.adapters.scontrol import Said, Scontrol
from rankmuster.adapters.slurm_job import ENDED, SlurmJob, read_job
from rankmuster.collect.deadline import Deadline
from rankmuster.report.inert import plain

KILL_WAIT = 30.0
"""Seconds between SIGTERM and SIGKILL where Slurm does not say: its default (slurm.conf, KillWait)."""

NUMBER = re.compile(r"\d+(?:_\d+)?")
"""Of a job, or of one task of an array."""

_NAME = re.compile(r"[^\s,|'\"]{1,128}")
_KILL_WAIT = re.compile(r"^KillWait\s*=\s*(\d+) sec", re.MULTILINE)
_UNKNOWN_JOB = "Invalid job id specified"


class SlurmJobs:
    """One job. It only asks."""

    def __init__(self, job: str, scontrol: Scontrol) -> None:
        self._job = job
        self._scontrol = scontrol

    @property
    def forgotten(self) -> str:
        """For a note, where Slurm knows none."""
        return f"Slurm knows no job {plain(self._job, 80)} (it forgets ended ones after MinJobAge)"

    def find(self, deadline: Deadline) -> SlurmJob | Said | None:
        """The job; None where Slurm knows none; what was said where it cannot be told."""
        number = self._job
        if not NUMBER.fullmatch(number):
            named = self._numbered(deadline.before(deadline.remaining() / 2))
            if not isinstance(named, str):
                return named
            number = named
        said = self._scontrol.ask(["show", "job", number], deadline)
        if _UNKNOWN_JOB in said.text:
            return None
        if said.problem:
            return said
        job = read_job(said.text, number)
        return Said(said.text, job) if isinstance(job, str) else job

    def _numbered(self, deadline: Deadline) -> str | Said | None:
        """The number of the one job of that name which has not ended; else of the last one that has."""
        if not _NAME.fullmatch(self._job):
            return Said("", f"{plain(self._job, 80)!r} is no name of a job that squeue could be asked for")
        asked = ["--noheader", f"--name={self._job}", "--states=all", "--format=%i|%T"]
        said = self._scontrol.ask(asked, deadline, program=self._scontrol.squeue)
        if said.problem:
            return said
        jobs = [line.strip().partition("|") for line in said.text.splitlines() if line.strip()]
        if any(not NUMBER.fullmatch(number) or not state for number, _, state in jobs):
            return Said(said.text, f"squeue's answer on jobs named {plain(self._job, 80)} is no list of single jobs")
        going = [number for number, _, state in jobs if state not in ENDED]
        if len(going) > 1:
            few = ", ".join(going[:5])
            return Said("", f"{len(going)} jobs are named {self._job} ({few}): name one by its number")
        ended = sorted((number for number, _, state in jobs if state in ENDED), key=lambda one: int(one.split("_")[0]))
        return going[0] if going else ended[-1] if ended else None

    def hosts(self, nodes: str, deadline: Deadline) -> tuple[str, ...]:
        """The names in Slurm's list; empty where they cannot be told."""
        if not nodes:
            return ()
        if not re.search(r"[\[,]", nodes):
            return (nodes,)
        said = self._scontrol.ask(["show", "hostnames", nodes], deadline)
        return () if said.problem else tuple(said.text.split())

    def kill_wait(self, deadline: Deadline) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        said = self._scontrol.ask(["show", "config"], deadline)
        found = _KILL_WAIT.search(said.text)
        return float(found[1]) if found is not None else KILL_WAIT
