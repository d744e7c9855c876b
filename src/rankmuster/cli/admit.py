"""`rankmuster admit`: may this node join the pool? And `admit verify`: is this answer as it was written?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankmuster.bench.tool import Tool
from rankmuster.cli.admit_output import Format, status_of, text_of, write_metrics
from rankmuster.cli.admit_pairs import pairs
from rankmuster.cli.admit_sources import Asked, admitted, keep, live, opened_history, recorded
from rankmuster.cli.given import bytes_of, profile_of, variables_of
from rankmuster.cli.history_place import HistoryPlace
from rankmuster.cli.measure_options import (
    TIME_LIMIT_SECONDS,
    Gpus,
    MeasuringTool,
    NcclTestsFolder,
    ProfileName,
    TimeLimit,
)
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, say, write_stdout
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, ExitStatus, doing

RETESTS = 2
"""Fresh processes beyond the first while a regime is borderline: the judgement decides after three."""

DCGM_LEVEL = 1
"""Of `dcgmi diag`, by default: seconds. Levels 3 and 4 take 15 minutes to two hours."""

MOST_RUNS = 100
"""Of one admission: the judgement decides after three, more of them are for whoever studies it."""

app = typer.Typer(
    name="admit",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def admit(
    context: typer.Context,
    profile_name: ProfileName = "links",
    history: HistoryPlace = "",
    tool: MeasuringTool = Tool.AUTO,
    gpus: Gpus = None,
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "--env", metavar="NAME=VALUE", help="A variable of the benchmark and of the fingerprint; may repeat."
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, max=MOST_RUNS, help="Runs at first, each in fresh processes.")
    ] = 1,
    retests: Annotated[
        int,
        typer.Option(
            "--retests", metavar="N", min=0, max=MOST_RUNS, help="Further runs while a result is borderline, at most."
        ),
    ] = RETESTS,
    dcgm_level: Annotated[
        int,
        typer.Option("--dcgm-level", metavar="N", min=0, max=4, help="Level of `dcgmi diag`, if installed; 0: none."),
    ] = DCGM_LEVEL,
    kernel_log: Annotated[
        Path | None,
        typer.Option("--kernel-log", metavar="FILE", help="This boot's kernel log, where it may not be read here."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Judge recorded output, a fingerprint, logs, captured text instead of this node; may repeat.",
        ),
    ] = None,
    limit: TimeLimit = TIME_LIMIT_SECONDS,
    folder: NcclTestsFolder = None,
    python: Annotated[
        Path | None, typer.Option("--python", metavar="PATH", help="The interpreter whose torch serves, and measures.")
    ] = None,
    image: Annotated[
        str | None,
        typer.Option("--image-digest", metavar="DIGEST", help="sha256:... of the image, or none; else looked for."),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="NAME", help="Which host, where recorded text is of several.")
    ] = None,
    keep_folder: Annotated[
        Path | None, typer.Option("--keep", metavar="FOLDER", help="Keep the benchmark's outputs and logs there.")
    ] = None,
    store: Annotated[
        bool, typer.Option("--store/--no-store", help="Keep the record, the fingerprint and the runs in the history.")
    ] = True,
    form: Annotated[
        Format,
        typer.Option("--format", help="terminal: to read; json: the record; junit: for CI; html: with pictures."),
    ] = Format.TERMINAL,
    output: OutputFile = None,
    metrics: Annotated[
        Path | None,
        typer.Option("--metrics", metavar="FILE", help="Also write metrics for node_exporter's textfile collector."),
    ] = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Decide whether this node may join the pool: hardware, environment, peers, values, and how fast it is.

    What is measured is compared with the history of nodes of the same kind, each size regime apart. A node that is
    not admitted leaves its runs outside the baseline. Nothing on the node is changed.

    Exit status: 0 pass, 1 fail, 2 provisional (too little history, or a check could not be answered), 3 error.
    """
    if context.invoked_subcommand is not None:
        return ExitStatus.HEALTHY
    given = variables_of(variables or [])
    if kernel_log is not None and not kernel_log.is_file():
        raise CommandError(f"--kernel-log {kernel_log}: there is no such file")
    with doing("loading the program"):
        load_numpy()
    profile = profile_of(profile_name)
    with opened_history(history, store) as opened:
        if files:
            plan, sources = recorded(files, host, kernel_log, profile, given, opened, gpus)
        else:
            asked = Asked(
                tool, gpus, given, runs, retests, limit, folder, python, image, keep_folder, kernel_log, dcgm_level
            )
            plan, sources = live(profile, asked, opened)
        outcome = admitted(plan, sources)
        if store and opened is not None:
            keep(opened, outcome)
    with doing("writing the answer"):
        text = text_of(outcome.record, outcome.compared, form, output)
    deliver(text, output)
    if metrics is not None:
        write_metrics(metrics, outcome.record)
    return status_of(outcome.record)


app.command("pairs", short_help="Decide whether nodes may serve together, from measured pairs.")(pairs)


@app.command("verify", short_help="Check that an answer is as it was written.")
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A record, as --format json writes it.")],
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Check an admission's record against its own hash, and say what it decided.

    Exit status: 0 as it was written, 1 changed, 3 it cannot be read, or is no record of this version.
    """
    from rankmuster.admission.verify import MOST_BYTES, Changed, NotARecord
    from rankmuster.admission.verify import verify as check

    data = bytes_of(file, MOST_BYTES, "record")
    with doing(f"checking {file}"):
        try:
            found = check(data)
        except NotARecord as error:
            say(f"rankmuster: {file}: {error}")
            return ExitStatus.FAULT if isinstance(error, Changed) else ExitStatus.NO_ANSWER
    write_stdout(f"{found.hash}: {found.decision} of {', '.join(found.nodes)}, as it was written\n")
    return ExitStatus.HEALTHY
