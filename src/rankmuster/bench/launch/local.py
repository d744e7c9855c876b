"""No launcher: nccl-tests' own way of using all GPUs of one node in one process."""

from __future__ import annotations

from rankmuster.bench.launch.job import CannotLaunch, Command, Job


class Local:
    name = "local"

    def commands(self, job: Job) -> tuple[Command, ...]:
        if len(job.nodes) > 1:
            raise CannotLaunch("several nodes need a launcher: mpirun, torchrun or slurm")
        if job.ranks_per_node > 1:
            raise CannotLaunch("ranks of one node are started by the benchmark itself, not by a launcher")
        return (Command(job.rank_command(), job.nodes[0]),)
