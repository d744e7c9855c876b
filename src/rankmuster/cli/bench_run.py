"""`rankmuster bench run`: one profile, measured on this node by nccl-tests, or by torch alone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.bench.tool import CannotMeasure, How, Tool, measured
from rankmuster.cli.as_ctrl_c import as_ctrl_c
from rankmuster.cli.bench_output import BenchFormat, deliver_runs
from rankmuster.cli.given import profile_of, variables_of
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.model.benchmark import BenchmarkRun

TIME_LIMIT_SECONDS = 600.0
"""Of one run, by default: `links` takes one to two minutes on eight GPUs; a hang is known by its not ending."""

MOST_SECONDS = 86_400.0
MOST_RUNS = 10_000
MOST_GPUS = 1_024


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
    given = variables_of(variables or [])
    profile = profile_of(profile_name)
    how = How(tool, gpus, given, os.environ, limit, folder, python, choices=choices)
    found: list[BenchmarkRun] = []
    for number in range(1, runs + 1):
        own = keep / f"run-{number:0{len(str(runs))}d}" if keep is not None and runs > 1 else keep
        with doing(f"run {number} of {profile.name}"), as_ctrl_c():
            try:
                found.append(measured(profile, replace(how, keep=own)))
            except CannotMeasure as error:
                raise CommandError(str(error)) from error
        if runs > 1:
            say(f"run {number} of {runs}: {found[-1].state.value}")
    return deliver_runs(found, form, output)
