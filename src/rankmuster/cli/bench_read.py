"""`rankmuster bench read`: nccl-tests' output of any age, text or JSON, as tables or in one common form."""

from __future__ import annotations

from typing import Annotated

import typer

from rankmuster.cli.bench_output import BenchForm, BenchFormat, deliver_runs
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError, doing
from rankmuster.model.benchmark import BenchmarkRun, Operation


def read(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Output of nccl-tests, its JSON, or a run in the common form; - is stdin."
        ),
    ],
    operation: Annotated[
        Operation | None,
        typer.Option("--operation", help="What was measured, where the file does not say."),
    ] = None,
    form: BenchForm = BenchFormat.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Read what nccl-tests printed or wrote with -J, of any version, and say how each run ended.

    A log may hold any number of tables, with NCCL's own lines and a launcher's labels between. Of a folder, a bundle or
    an archive every file is looked at. Of an environment that a file holds only NCCL_* and CUDA_* values are kept. A
    file that cannot be read is named, and the others are read.

    Exit status: 0 every run is complete, 1 a run is not (wrong values, cut, error, hung) or a file holds none,
    2 contended, 3 there is no run in any file, or bad usage.
    """
    with doing("loading the readers"):
        from rankmuster.bench.read_file import NoRuns, read_file
    runs: list[BenchmarkRun] = []
    missing = 0
    for name in files:
        with doing(f"reading {name}"):
            try:
                runs += read_file(name, operation)
            except NoRuns as error:
                missing += 1
                say(f"rankmuster: {error}")
    if not runs:
        raise CommandError(f"no run was read from {len(files)} {'file' if len(files) == 1 else 'files'}")
    status = deliver_runs(runs, form, output)
    return max(int(status), 1) if missing else int(status)
