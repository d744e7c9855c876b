"""nccl-tests over several nodes: a rank per GPU, started by a launcher that speaks MPI."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rankmuster.bench.builtin.environment import safeguards
from rankmuster.bench.builtin.nodes import MARGIN, launching
from rankmuster.bench.launch.job import CannotLaunch, Job, Launcher
from rankmuster.bench.nccl_tests import run_nccl_tests
from rankmuster.model.benchmark import BenchmarkRun, Profile


def nccl_tests_over_nodes(
    profile: Profile,
    nodes: tuple[str, ...],
    launcher: Launcher,
    *,
    ranks_per_node: int,
    environment: Mapping[str, str],
    time_limit_s: float,
    folder: Path | None = None,
    keep: Path | None = None,
    now: Callable[[], float] = time.time,
    here: Mapping[str, str] | None = None,
) -> BenchmarkRun:
    """As `run_nccl_tests`, with programs of an MPI build, at the same path on all nodes. What NCCL chooses stays on the
    node of rank 0, and foreign work on the nodes' GPUs is not seen from here.

    Raises CannotLaunch and NcclTestsMissing.
    """
    base = os.environ if here is None else here
    environment = {**safeguards(base), **environment}
    job = Job((), nodes, ranks_per_node, time_limit_s + MARGIN, tuple(sorted(environment.items())), mpi=True)
    commands = launcher.commands(job)
    if len(commands) != 1:
        raise CannotLaunch(f"{launcher.name} starts each node by itself, which nccl-tests cannot do")
    return run_nccl_tests(
        profile,
        gpus=job.ranks,
        environ=base,
        now=now,
        given={**launching(base, {}), **environment},
        folder=folder,
        time_limit_s=time_limit_s,
        choices=False,
        keep=keep,
        launcher=commands[0].argv,
        contention=False,
    )
