"""What is given to `bench pairs`, read and checked: nodes, launcher, profile, rails, variables, earlier results."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.baseline.pairs import PairResult
    from rankmuster.bench.launch.job import Launcher
    from rankmuster.bench.rails import Rail
    from rankmuster.model.benchmark import Profile

MOST_RESULTS = 64 << 20  # bytes of a file; a million pairs


class LauncherName(str, Enum):
    """What starts ranks on the nodes."""

    SLURM = "slurm"
    MPIRUN = "mpirun"
    TORCHRUN = "torchrun"


def launcher_of(name: LauncherName, options: Sequence[str], remote: str | None, overlap: bool, python: str) -> Launcher:
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


def profile_of(name: str | None) -> Profile:
    from rankmuster.bench.launch.pairs import PROFILE
    from rankmuster.bench.profile_choice import NoProfile, chosen

    if name is None:
        return PROFILE
    try:
        return chosen(name)
    except NoProfile as error:
        raise CommandError(str(error)) from error


def rails_of(of_this_machine: bool, words: Sequence[str]) -> tuple[Rail, ...]:
    from rankmuster.bench.rails import NoRails, Rail

    if of_this_machine and words:
        raise CommandError("--rails takes them from this machine, --rail names them; give one of both")
    if of_this_machine:
        from rankmuster.bench.rails_here import rails_here

        try:
            return rails_here(os.environ)
        except NoRails as error:
            raise CommandError(
                f"this machine's rails are not known: {error}; name them with --rail 0=mlx5_0"
            ) from error
    found = []
    for word in words:
        number, equals, nics = word.partition("=")
        listed = tuple(nic for nic in nics.split(",") if nic)
        if not equals or not number.isdigit() or not listed:
            raise CommandError(f"--rail wants GPU=NIC, like 0=mlx5_0, not {word!r}")
        found.append(Rail(int(number), listed))
    return tuple(found)


def known_of(files: Sequence[Path], nodes: Sequence[str]) -> tuple[PairResult, ...]:
    from rankmuster.baseline.pairs_file import NotPairs, read_lines

    found: list[PairResult] = []
    for path in files:
        try:
            with path.open("rb") as file:
                found += read_lines(file.read(MOST_RESULTS), str(path))
        except OSError as error:
            raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
        except NotPairs as error:
            raise CommandError(str(error)) from error
    strange = sorted({node for one in found for node in one.pair} - set(nodes))
    if strange:
        raise CommandError(f"--results speak of {', '.join(strange[:4])}, which --nodes does not name")
    return tuple(found)


def names_of(text: str, option: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len(set(names)) < len(names):
        raise CommandError(f"{option} names a node twice")
    return names


def variables_of(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier() or "\0" in value:
            raise CommandError(f"--env wants NAME=VALUE, like NCCL_ALGO=Ring, not {word!r}")
        found[name] = value
    return found
