"""How ranks are started on nodes: options that `bench pairs` and `bench nodes` share, and the launcher they mean."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.bench.builtin.orders import Backend
from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.bench.launch.job import Launcher

MOST_NODES = 4_096
"""Of one measurement; Llama 3 was trained on 2,048 nodes of eight GPUs (arXiv 2407.21783)."""

FIRST_PORT = 29_500
"""torch's own default of MASTER_PORT."""


class LauncherName(str, Enum):
    """What starts ranks on the nodes."""

    SLURM = "slurm"
    MPIRUN = "mpirun"
    TORCHRUN = "torchrun"


class NodesTool(str, Enum):
    """What measures on the nodes: there is no telling from here what is installed there, so nothing is chosen."""

    BUILT_IN = "built-in"
    NCCL_TESTS = "nccl-tests"


Nodes = Annotated[
    str, typer.Option("--nodes", metavar="A,B,...", help="The nodes, by the names that the launcher knows.")
]
LauncherOptions = Annotated[
    list[str] | None,
    typer.Option("--launcher-option", metavar="OPTION", help="One more of the launcher's own; may repeat."),
]
Remote = Annotated[
    str | None,
    typer.Option("--remote", metavar="COMMAND", help="torchrun: what starts a command on {node}; ssh without it."),
]
GpusPerNode = Annotated[
    int, typer.Option("--gpus-per-node", metavar="N", min=1, max=1024, help="Ranks on each node, one per GPU.")
]
MeasuredBy = Annotated[NodesTool, typer.Option("--tool", help="What measures on the nodes.")]
NodesPython = Annotated[
    str, typer.Option("--python", metavar="PATH", help="On the nodes: an interpreter with torch and this package.")
]
RankBackend = Annotated[Backend, typer.Option("--backend", help="What moves the data.")]
RankVariables = Annotated[
    list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable for the ranks; may repeat.")
]
Address = Annotated[
    str | None, typer.Option("--address", metavar="HOST", help="Where rank 0 is reached; the first node's name.")
]


def launcher_of(name: LauncherName, options: Sequence[str], remote: str | None, overlap: bool, python: str) -> Launcher:
    """The launcher of that name. Raises CommandError for options that it does not have."""
    from rankmuster.bench.launch.mpirun import Mpirun
    from rankmuster.bench.launch.slurm import Slurm
    from rankmuster.bench.launch.torchrun import SSH, Torchrun

    if remote is not None and name is not LauncherName.TORCHRUN:
        raise CommandError(f"--remote is torchrun's; {name.value} reaches the nodes by itself")
    if overlap and name is not LauncherName.SLURM:
        raise CommandError("--overlap is slurm's")
    if name is LauncherName.SLURM:
        return Slurm(options=tuple(options), overlap=overlap)
    if name is LauncherName.MPIRUN:
        return Mpirun(options=tuple(options), as_root=os.geteuid() == 0)
    if options:
        raise CommandError("--launcher-option is mpirun's and slurm's; torchrun takes none")
    return Torchrun(remote=SSH if remote is None else tuple(shlex.split(remote)), python=python)


@contextmanager
def launching() -> Iterator[None]:
    """What keeps ranks from being started is what the user can mend. Raises CommandError."""
    from rankmuster.bench.launch.job import CannotLaunch
    from rankmuster.bench.nccl_tests_find import NcclTestsMissing

    try:
        yield
    except (CannotLaunch, NcclTestsMissing) as error:
        raise CommandError(str(error)) from error
