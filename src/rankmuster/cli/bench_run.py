"""`rankmuster bench run`: one profile, measured on this node by nccl-tests, or by torch alone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.bench.tool import CannotMeasure, How, Tool, measured
from rankmuster.cli.as_ctrl_c import as_ctrl_c
from rankmuster.cli.bench_output import BenchForm, BenchFormat, deliver_runs
from rankmuster.cli.given import profile_of, variables_of
from rankmuster.cli.measure_options import (
    TIME_LIMIT_SECONDS,
    Gpus,
    MeasuringTool,
    NcclTestsFolder,
    ProfileName,
    TimeLimit,
)
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.model.benchmark import BenchmarkRun

MOST_RUNS = 10_000
"""Of one call: ten days of `links`."""


def run(
    profile_name: ProfileName = "links",
    tool: MeasuringTool = Tool.AUTO,
    gpus: Gpus = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="A variable for the run, NCCL_ALGO=Ring for one; may repeat."),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, max=MOST_RUNS, help="Runs, each in fresh processes.")
    ] = 1,
    limit: TimeLimit = TIME_LIMIT_SECONDS,
    folder: NcclTestsFolder = None,
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
    form: BenchForm = BenchFormat.TERMINAL,
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
