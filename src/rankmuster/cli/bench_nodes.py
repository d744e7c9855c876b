"""`rankmuster bench nodes`: one profile, measured over several nodes together."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.bench.builtin.orders import Backend
from rankmuster.cli.bench_launch_options import (
    FIRST_PORT,
    MOST_NODES,
    Address,
    GpusPerNode,
    LauncherName,
    LauncherOptions,
    MeasuredBy,
    Nodes,
    NodesPython,
    NodesTool,
    RankBackend,
    RankVariables,
    Remote,
    launcher_of,
    launching,
)
from rankmuster.cli.bench_output import BenchForm, BenchFormat, deliver_runs
from rankmuster.cli.given import names_of, profile_of, variables_of
from rankmuster.cli.measure_options import MOST_SECONDS, ProfileName
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.model.benchmark import BenchmarkRun

TIME_LIMIT_SECONDS = 900.0
"""Of one run, by default: as of one node, and what a launcher and imports over a network file system take more."""


def nodes(
    names: Nodes = "",
    launcher: Annotated[LauncherName | None, typer.Option("--launcher", help="What starts ranks there.")] = None,
    launcher_options: LauncherOptions = None,
    remote: Remote = None,
    overlap: Annotated[
        bool, typer.Option("--overlap", help="slurm: as a step of the allocation this runs in.")
    ] = False,
    gpus: GpusPerNode = 8,
    profile_name: ProfileName = "links",
    tool: MeasuredBy = NodesTool.BUILT_IN,
    python: NodesPython = "python3",
    backend: RankBackend = Backend.NCCL,
    variables: RankVariables = None,
    address: Address = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=1024, max=65000, help="Where rank 0 listens.")
    ] = FIRST_PORT,
    limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", min=1, max=MOST_SECONDS, help="Then all is ended.")
    ] = TIME_LIMIT_SECONDS,
    choices: Annotated[
        bool, typer.Option("--choices/--no-choices", help="Ask, in a second short start, what NCCL chooses.")
    ] = False,
    results: Annotated[
        list[Path] | None,
        typer.Option("--results", metavar="FILE", help="Start nothing: outputs of such a run, one for each launcher."),
    ] = None,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Print the commands; start nothing.")] = False,
    script: Annotated[bool, typer.Option("--script", help="slurm: print the job as a file for sbatch.")] = False,
    form: BenchForm = BenchFormat.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Measure a profile over nodes together, and say how it ended, and which node did not start.

    All GPUs of few nodes together may hide a weak NIC; `bench pairs` finds it.

    Exit status: 0 the run is complete, 1 it is not (wrong values, incomplete, error, hung), 3 nothing could be started,
    or bad usage.
    """
    if results:
        with doing("reading outputs"):
            found = _read(results)
        return deliver_runs([found], form, output)
    listed = names_of(names, "--nodes")
    if launcher is None:
        raise CommandError("give --launcher to measure, or --results of an output that was kept")
    if not 1 <= len(listed) <= MOST_NODES:
        raise CommandError(f"--nodes wants 1 to {MOST_NODES} nodes")
    given = variables_of(variables or [])
    with doing("choosing what to measure"):
        profile = profile_of(profile_name)
        made = launcher_of(launcher, launcher_options or [], remote, overlap, python)
    with doing(f"measuring {profile.name} over {len(listed)} nodes"), launching():
        from rankmuster.bench.builtin.nodes import job_over_nodes, run_over_nodes
        from rankmuster.bench.launch.nccl_tests import nccl_tests_over_nodes
        from rankmuster.bench.launch.slurm import Slurm

        if plan_only or script:
            if tool is NodesTool.NCCL_TESTS:
                raise CommandError("--plan-only and --script are of the built-in benchmark")
            job = job_over_nodes(
                profile,
                listed,
                ranks_per_node=gpus,
                environment=given,
                time_limit_s=limit,
                python=python,
                backend=backend,
                address=address,
                port=port,
            )
            if script and not isinstance(made, Slurm):
                raise CommandError("--script is slurm's")
            text = made.script(job) if script and isinstance(made, Slurm) else ""
            text = text or "".join(f"{shlex.join(command.argv)}\n" for command in made.commands(job))
            deliver(text, output)
            return 0
        run: BenchmarkRun
        if tool is NodesTool.NCCL_TESTS:
            run = nccl_tests_over_nodes(
                profile, listed, made, ranks_per_node=gpus, environment=given, time_limit_s=limit
            )
        else:
            run = run_over_nodes(
                profile,
                listed,
                made,
                ranks_per_node=gpus,
                environment=given,
                time_limit_s=limit,
                python=python,
                backend=backend,
                address=address,
                port=port,
                choices=choices,
            )
    return deliver_runs([run], form, output)


def _read(files: list[Path]) -> BenchmarkRun:
    from rankmuster.bench.builtin.from_output import read_output
    from rankmuster.bench.read_file import NoRuns, output_in

    try:
        return read_output([output_in(str(path)) for path in files], ", ".join(map(str, files)))
    except (NoRuns, ValueError) as error:
        raise CommandError(str(error)) from error
