"""`rankmuster flight FOLDER`: the dumps of a job, group by group, beside the verdict on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.flight_choice import keys_of
from rankmuster.cli.flight_options import (
    MOST_GROUPS,
    MOST_RECORDS,
    AlignedToo,
    Asked,
    Differences,
    Entries,
    Form,
    Format,
    Groups,
    Limit,
    MostGroups,
    Ranks,
    Stacks,
    asked,
)
from rankmuster.cli.flight_slow import (
    BaselineFile,
    Parquet,
    ParquetCollectives,
    SaveBaseline,
    Slow,
    measured,
    slow_asked,
)
from rankmuster.cli.gc_off import gc_off
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import write_stdout
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, doing
from rankmuster.cli.verdict_output import NoColor, Width, hand_over

if TYPE_CHECKING:
    from rankmuster.evidence.bundle import Evidence

WHENCE = (
    "torch writes dumps when its watchdog times out (TORCH_FR_BUFFER_SIZE above 0, TORCH_NCCL_DUMP_ON_TIMEOUT=1) to "
    "TORCH_FR_DUMP_TEMP_FILE and the rank; rankmuster env print sets that up, and rankmuster collect takes them from a "
    "live instance"
)


def show(
    given: Annotated[
        str, typer.Argument(metavar="FOLDER", help="A folder with dumps and whatever else there is, or an archive.")
    ],
    group: Groups = None,
    rank: Ranks = None,
    stacks: Stacks = False,
    entries: Entries = False,
    aligned: AlignedToo = False,
    limit: Limit = MOST_RECORDS,
    previous: Annotated[
        str | None,
        typer.Option(
            "--previous", metavar="FOLDER", help="An earlier set of dumps of the same job: a tail, or a stop?"
        ),
    ] = None,
    most_groups: MostGroups = MOST_GROUPS,
    differences: Differences = 0,
    slow: Slow = False,
    baseline: BaselineFile = None,
    save_baseline: SaveBaseline = None,
    parquet: Parquet = None,
    parquet_collectives: ParquetCollectives = None,
    prefix: Annotated[
        str,
        typer.Option("--prefix", metavar="TEXT", help="Only dumps whose name holds this; the rank comes right behind."),
    ] = "",
    replica_size: Annotated[
        int | None,
        typer.Option(
            "--replica-size", metavar="RANKS", min=1, help="torchft: default_pg counts its ranks within such a replica."
        ),
    ] = None,
    form: Form = Format.TERMINAL,
    output: OutputFile = None,
    width: Width = None,
    no_color: NoColor = False,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Show what the Flight Recorder dumps in FOLDER say, group by group.

    The verdict is that of `rankmuster diagnose` on the same folder. Then, the most telling group first: who entered and
    finished which number, the first that not all entered, calls that differ in operation, size, type or order with the
    odd ranks named, sends without receives, what the rings overwrote, and which dumps are missing, stale or damaged.

    Exit status: 0 healthy, 1 a fault was found, 2 the evidence does not decide or nothing could see, 3 no answer
    (bad usage, no dump, unreadable input).
    """
    wanted = asked(
        group,
        rank,
        stacks=stacks,
        entries=entries,
        aligned=aligned,
        limit=limit,
        most_groups=most_groups,
        differences=differences,
        form=form,
        output=output,
        width=width,
        no_color=no_color,
        slow=slow_asked(
            show=slow, baseline=baseline, save=save_baseline, parquet=parquet, collectives=parquet_collectives
        ),
    )
    path, before = _path(given, "FOLDER"), None if previous is None else _path(previous, "--previous")
    with gc_off():
        evidence = _dumps_in(path, prefix, replica_size)
        earlier = _read(before, prefix, replica_size) if before is not None else None
        return tell(str(path), evidence, earlier, wanted)


def tell(
    path: str,
    evidence: Evidence,
    earlier: Evidence | None,
    wanted: Asked,
) -> int:
    """Diagnoses a set of dumps and writes the report on it. `path`: what it is called. Returns the exit status.

    Raises CommandError.
    """
    from rankmuster.cli.reading import examined
    from rankmuster.model.fault import FaultClass

    found = examined(path, evidence, earlier)
    keys = keys_of(wanted.group, wanted.ranks, found.context.table.groups)
    verdict, form, output = found.diagnosis.verdict, wanted.form, wanted.output
    with doing(f"reporting on {path}"):
        from rankmuster.cli import flight_output
        from rankmuster.diagnose.flight_report.build import flight_report

        stacks = wanted.stacks and (form is Format.JSON or not wanted.entries)
        report = flight_report(found, stacks=stacks, examples=wanted.differences)
    is_slow = verdict.class_ is FaultClass.PERFORMANCE_DEGRADATION  # then the report says what there is of it
    slow = measured(found, wanted.slow) if wanted.slow.wanted or is_slow else None
    shown = flight_output.Shown(found, report, wanted, keys, slow if wanted.slow.told or is_slow else None)
    if form is Format.JSONL and (output is None or str(output) == "-"):
        for piece in flight_output.pieces(shown):
            write_stdout(piece)
        return verdict.exit_status
    with doing(f"writing the report on {path} as {form.value}"):
        text = flight_output.rendered(shown)
    return hand_over(text, output, verdict)


def _path(given: str, what: str) -> Path:
    if not given:
        raise CommandError(
            f"{what} is empty (a variable that is not set?); name a folder with dumps, or . for this one"
        )
    return Path(given)


def _dumps_in(path: Path, prefix: str, replica_size: int | None) -> Evidence:
    """The evidence. Raises CommandError where it holds no dump, with what it holds instead."""
    load_numpy()
    from rankmuster.model.flight import FlightDump

    evidence = _read(path, prefix, replica_size)
    if not evidence.of(FlightDump):
        what = f"no Flight Recorder dump whose name holds {prefix}" if prefix else "no Flight Recorder dump"
        raise CommandError(f"{path} holds {what}{_instead(evidence)}; {WHENCE}")
    return evidence


def _instead(evidence: Evidence) -> str:
    """What was found: files by their reader, and why what looks like a dump is none."""
    from collections import Counter

    readers = Counter(source.readers[0] if source.readers else "unread" for source in evidence.sources)
    said = ", ".join(f"{count} {name}" for name, count in readers.most_common(6))
    text = f" (found {said})" if said else ""
    refused = [problem for problem in evidence.problems if problem.kind.value in ("refused", "damaged")]
    if refused:
        text += f"; {refused[0].source}: {refused[0].message}"
    return text


def _read(path: Path, prefix: str, replica_size: int | None) -> Evidence:
    with doing("loading the program"):
        from rankmuster.cli.reading import read
    evidence = read(path)
    if prefix or replica_size is not None:
        from rankmuster.diagnose.flight_report import given as as_given

        if prefix:
            evidence = as_given.of_prefix(evidence, prefix)
        if replica_size is not None:
            evidence = as_given.of_replicas(evidence, replica_size)
    return evidence
