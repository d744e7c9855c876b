"""Open MPI's mpirun, 4 and 5 (`man mpirun`). It reaches the other nodes by ssh, or inside a Slurm job by srun."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rankmuster.bench.launch.job import Command, Job


@dataclass(frozen=True, slots=True)
class Mpirun:
    """`options`: more of mpirun's own; `as_root`: it refuses to run as root unless told (containers often are root)."""

    program: str = "mpirun"
    options: tuple[str, ...] = ()
    as_root: bool = False
    name: str = "mpirun"

    def commands(self, job: Job) -> tuple[Command, ...]:
        hosts = ",".join(f"{node}:{job.ranks_per_node}" for node in job.nodes)
        argv = (
            self.program,
            *(("--allow-run-as-root",) if self.as_root else ()),
            *("-np", str(job.ranks), "--host", hosts, "--map-by", f"ppr:{job.ranks_per_node}:node"),
            *("--bind-to", "none"),  # its default binds a rank to one core, which NCCL's threads then share
            *("--timeout", str(math.ceil(job.seconds))),
            *self.options,
            *job.rank_command(*(() if job.mpi else job.meeting)),
        )
        return (Command(argv),)
