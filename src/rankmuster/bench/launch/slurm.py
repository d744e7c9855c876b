"""Slurm: a step of an allocation, an allocation of its own (srun), or a batch job that is waited for (sbatch)."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass

from rankmuster.bench.launch.job import CannotLaunch, Command, Job

SPARE_MINUTES = 1
"""Slurm counts minutes and checks every half: its limit is only for what the parent of the benchmark left behind."""


@dataclass(frozen=True, slots=True)
class Slurm:
    """`options`: more for srun, like `--partition=gpu` and `--gpus-per-node=8`. `overlap`: as a step beside others of
    this allocation. `mpi`: srun's plugin for programs that use MPI (`srun --mpi=list`)."""

    options: tuple[str, ...] = ()
    overlap: bool = False
    mpi: str = "pmix"
    name: str = "slurm"

    def commands(self, job: Job) -> tuple[Command, ...]:
        return (Command(self._srun(job)),)

    def script(self, job: Job) -> str:
        """For sbatch: the same job as a file. Its output is what the ranks say."""
        if self.overlap:
            raise CannotLaunch("a batch job is no step of an allocation; leave out the overlap")
        heads = [
            f"--nodes={len(job.nodes)}",
            f"--nodelist={','.join(job.nodes)}",
            f"--ntasks-per-node={job.ranks_per_node}",
            f"--time={_minutes(job)}",
            *self.options,
        ]
        lines = ["#!/bin/sh", *(f"#SBATCH {head}" for head in heads)]
        return "\n".join([*lines, shlex.join(("srun", *self._step(job), *self._rank(job))), ""])

    def _srun(self, job: Job) -> tuple[str, ...]:
        return (
            "srun",
            f"--nodelist={','.join(job.nodes)}",
            f"--time={_minutes(job)}",
            *(("--overlap",) if self.overlap else ()),
            *self._step(job),
            *self.options,
            *self._rank(job),
        )

    def _step(self, job: Job) -> tuple[str, ...]:
        return (
            f"--nodes={len(job.nodes)}",
            f"--ntasks={job.ranks}",
            f"--ntasks-per-node={job.ranks_per_node}",
            "--distribution=block",  # ranks of a node are neighbours, as nccl-tests and torch number them
            "--kill-on-bad-exit=1",
            "--input=none",
            f"--mpi={self.mpi if job.mpi else 'none'}",
        )

    def _rank(self, job: Job) -> tuple[str, ...]:
        """srun orders nodes by itself: without an address of its own rank 0 is found by the step's list of nodes."""
        if job.mpi:
            return job.rank_command()
        meeting = dict(job.meeting)
        if job.address is None:
            del meeting["MASTER_ADDR"]
        return job.rank_command(*meeting.items())


def _minutes(job: Job) -> int:
    return math.ceil(job.seconds / 60) + SPARE_MINUTES
