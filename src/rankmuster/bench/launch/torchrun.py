"""torchrun, one agent on each node, reached by ssh or whatever else starts a command there."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass

from rankmuster.bench.launch.job import CannotLaunch, Command, Job

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new", "{node}")


@dataclass(frozen=True, slots=True)
class Torchrun:
    """`remote`: what starts a command on a node, `{node}` in it being the node's name; empty: all on this machine.

    ssh gives what follows to a shell, so that is quoted for one; anything else (`kubectl exec {node} --`) gets it as it
    is. `python`: the interpreter on the nodes, which has torch and this package.
    """

    remote: tuple[str, ...] = SSH
    python: str = "python3"
    name: str = "torchrun"

    def commands(self, job: Job) -> tuple[Command, ...]:
        if job.mpi:
            raise CannotLaunch("nccl-tests find each other by MPI, which torchrun does not speak; take mpirun or slurm")
        return tuple(Command(self._on(node, number, job), node) for number, node in enumerate(job.nodes))

    def _on(self, node: str, number: int, job: Job) -> tuple[str, ...]:
        meeting = dict(job.meeting)
        agent = (
            *(self.python, "-m", "torch.distributed.run"),
            *(f"--nnodes={len(job.nodes)}", f"--nproc-per-node={job.ranks_per_node}", f"--node-rank={number}"),
            *(f"--master-addr={meeting['MASTER_ADDR']}", f"--master-port={meeting['MASTER_PORT']}"),
            "--max-restarts=0",  # a rank that failed is a result
            f"--rdzv-conf=timeout={math.ceil(job.seconds)}",
            "--no-python",
        )
        pairs = tuple(f"{name}={value}" for name, value in job.environment)
        whole = (*(("env", *pairs) if pairs else ()), *agent, *job.program)
        if not self.remote:
            return whole
        remote = tuple(part.replace("{node}", node) for part in self.remote)
        shell = remote[0].rpartition("/")[2] == "ssh"
        return (*remote, shlex.join(whole)) if shell else (*remote, *whole)
