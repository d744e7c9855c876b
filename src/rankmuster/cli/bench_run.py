"""`rankmuster bench run`: one profile, measured on this node by nccl-tests, or by torch alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.as_ctrl_c import as_ctrl_c
from rankmuster.cli.bench_output import BenchFormat, deliver_runs
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.model.benchmark import BenchmarkRun, Profile

TIME_LIMIT_SECONDS = 600.0
"""Of one run, by default: `links` takes one to two minutes on eight GPUs; a hang is known by its not ending."""

MOST_SECONDS = 86_400.0
MOST_RUNS = 10_000
MOST_GPUS = 1_024


class Tool(str, Enum):
    """What measures."""

    AUTO = "auto"
    NCCL_TESTS = "nccl-tests"
    BUILT_IN = "built-in"


def run(
    profile_name: Annotated[
        str, typer.Option("--profile", metavar="NAME|FILE", help="What to measure; see `bench profiles`.")
    ] = "links",
    tool: Annotated[
        Tool, typer.Option("--tool", help="auto: nccl-tests where it is installed, else built-in, which needs torch.")
    ] = Tool.AUTO,
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", min=2, max=MOST_GPUS, help="GPUs to use; all without it.")
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="A variable for the run, NCCL_ALGO=Ring for one; may repeat."),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, max=MOST_RUNS, help="Runs, each in fresh processes.")
    ] = 1,
    limit: Annotated[
        float,
        typer.Option("--time-limit", metavar="SECONDS", min=1, max=MOST_SECONDS, help="Of one run; then it is killed."),
    ] = TIME_LIMIT_SECONDS,
    folder: Annotated[
        Path | None, typer.Option("--nccl-tests", metavar="FOLDER", help="Where nccl-tests' programs are.")
    ] = None,
    python: Annotated[
        str | None, typer.Option("--python", metavar="PATH", help="An interpreter with torch, for the built-in one.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="FOLDER", help="Keep outputs, NCCL's logs and its dump of the topology there."),
    ] = None,
    choices: Annotated[
        bool, typer.Option("--choices/--no-choices", help="Ask, in short processes, what NCCL chooses for each size.")
    ] = True,
    form: Annotated[
        BenchFormat, typer.Option("--format", help="terminal: tables; json: the schema, a run on each line.")
    ] = BenchFormat.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Measure a profile on this node's GPUs, and say how each run ended.

    The environment of the run is empty but for what finds and loads the programs and picks the GPUs; NCCL_* variables
    of this shell are not passed on: give them with --env, so that they stand in the result. Each run has fresh
    processes, and ends with all of them at its time limit: a run that hangs is a result.

    Exit status: 0 every run is complete, 1 a run is not (wrong values, incomplete, error, hung), 2 something else
    worked on the GPUs, 3 nothing could be measured, or bad usage.
    """
    given = _variables(variables or [])
    with doing("choosing what to measure"):
        from rankmuster.bench.profile_choice import NoProfile, chosen

        try:
            profile = chosen(profile_name)
        except NoProfile as error:
            raise CommandError(str(error)) from error
    found: list[BenchmarkRun] = []
    for number in range(1, runs + 1):
        own = keep / f"run-{number:0{len(str(runs))}d}" if keep is not None and runs > 1 else keep
        with doing(f"run {number} of {profile.name}"), as_ctrl_c():
            found.append(_measured(tool, profile, gpus, given, folder, python, limit, own, choices))
        if runs > 1:
            say(f"run {number} of {runs}: {found[-1].state.value}")
    return deliver_runs(found, form, output)


def _measured(
    tool: Tool,
    profile: Profile,
    gpus: int | None,
    given: Mapping[str, str],
    folder: Path | None,
    python: str | None,
    limit: float,
    keep: Path | None,
    choices: bool,
) -> BenchmarkRun:
    nccl_tests = partial(_nccl_tests, profile, gpus, given, folder, limit, keep, choices)
    built_in = partial(_built_in, profile, gpus, given, python, limit, keep, choices)
    if tool is Tool.BUILT_IN:
        return built_in()
    from rankmuster.bench.nccl_tests import NcclTestsMissing

    try:
        return nccl_tests()
    except NcclTestsMissing as error:
        if tool is Tool.NCCL_TESTS or folder is not None:
            raise CommandError(str(error)) from error
        return _instead(built_in, str(error))
    except OSError as error:
        raise CommandError(f"nccl-tests could not be run: {error.strerror or error}") from error


def _instead(built_in: Callable[[], BenchmarkRun], missing: str) -> BenchmarkRun:
    """The built-in benchmark; where it cannot run either, both reasons are said."""
    try:
        return built_in()
    except CommandError as error:
        raise CommandError(f"{error}; nor is there nccl-tests: {missing}") from error


def _nccl_tests(
    profile: Profile,
    gpus: int | None,
    given: Mapping[str, str],
    folder: Path | None,
    limit: float,
    keep: Path | None,
    choices: bool,
) -> BenchmarkRun:
    from rankmuster.bench.nccl_tests import run_nccl_tests

    return run_nccl_tests(
        profile,
        gpus=gpus,
        environ=os.environ,
        now=time.time,
        given=given,
        folder=folder,
        time_limit_s=limit,
        choices=choices,
        keep=keep,
    )


def _built_in(
    profile: Profile,
    gpus: int | None,
    given: Mapping[str, str],
    python: str | None,
    limit: float,
    keep: Path | None,
    choices: bool,
) -> BenchmarkRun:
    from rankmuster.bench.builtin.run import run_builtin

    try:
        return run_builtin(
            profile, gpus=gpus, environment=given, time_limit_s=limit, python=python, keep=keep, choices=choices
        )
    except ValueError as error:
        raise CommandError(f"the built-in benchmark cannot run {profile.name}: {error}") from error
    except OSError as error:
        raise CommandError(f"the built-in benchmark could not be started: {error.strerror or error}") from error


def _variables(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier() or "\0" in value:
            raise CommandError(f"--env wants NAME=VALUE, like NCCL_ALGO=Ring, not {word!r}")
        found[name] = value
    return found
