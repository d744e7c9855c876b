"""`rankmuster flight FOLDER`: the dumps of a job, group by group, beside the verdict on them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.diagnose import NARROWEST, color_wanted, one_line
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
    NoColor,
    Ranks,
    Stacks,
    Width,
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
from rankmuster.cli.output import say, write_file, write_stdout
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rich.console import Console

    from rankmuster.diagnose.run import Examination
    from rankmuster.evidence.bundle import Evidence
    from rankmuster.model.flight_entry import FlightEntry
    from rankmuster.model.flight_report import Aligned, FlightReport
    from rankmuster.model.slow import SlowReport
    from rankmuster.model.slow_baseline import Comparison

MOST_PRINTED = 5000
"""Records printed on a terminal in all; JSON lines have no bound."""

LINES_AT_ONCE = 5000
"""JSON lines written together, about 3 MB."""

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
    examined = _examined(path, evidence, earlier)
    keys = keys_of(wanted.group, wanted.ranks, examined.context.table.groups)
    form, output = wanted.form, wanted.output
    with doing(f"reporting on {path}"):
        from rankmuster.diagnose.flight_report.build import flight_report

        stacks = wanted.stacks and (form is Format.JSON or not wanted.entries)
        report = flight_report(examined, stacks=stacks, examples=wanted.differences)
    slow = measured(examined, wanted.slow) if wanted.slow.wanted or _is_slow(examined) else None
    choice = _Choice(wanted, keys, slow if wanted.slow.told or _is_slow(examined) else None)
    to_screen = output is None or str(output) == "-"
    if form is Format.JSONL and to_screen:
        for piece in _pieces(_lines(examined, choice)):
            write_stdout(piece)
        return examined.diagnosis.verdict.exit_status
    with doing(f"writing the report on {path} as {form.value}"):
        if form is Format.JSONL:
            text = "".join(_lines(examined, choice))
        elif form is Format.JSON:
            text = _json(examined, report, choice)
        else:
            color = color_wanted(wanted.no_color, output)
            text = _terminal(examined, report, choice, width=wanted.width, color=color)
    verdict = examined.diagnosis.verdict
    if output is None or to_screen:
        write_stdout(text)
    else:
        write_file(output, text)
        say(f"wrote {output}")
        say(one_line(verdict))
    return verdict.exit_status


class _Choice:
    """What to show. `limit`: records of each rank, None for all. `keys`: of groups, None for all."""

    def __init__(
        self, wanted: Asked, keys: frozenset[int] | None, slow: tuple[SlowReport, Comparison | None] | None
    ) -> None:
        self.slow = slow
        self.ranks, self.keys, self.stacks = wanted.ranks, keys, wanted.stacks
        self.entries = wanted.entries or wanted.form is Format.JSONL
        self.limit, self.most_groups, self.aligned = wanted.limit, wanted.most_groups, wanted.aligned


def _is_slow(examined: Examination) -> bool:
    """Whether slowness is what is wrong: then the report says what there is of it."""
    from rankmuster.model.fault import FaultClass

    return examined.diagnosis.verdict.class_ is FaultClass.PERFORMANCE_DEGRADATION


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


def _examined(path: str, evidence: Evidence, earlier: Evidence | None) -> Examination:
    with doing(f"diagnosing {path}"):
        from rankmuster.diagnose.run import MixedInstances, examine

        try:
            return examine(evidence, earlier=earlier)
        except MixedInstances as error:
            raise CommandError(str(error)) from error


def _entries(
    examined: Examination, choice: _Choice, whole: bool = True
) -> Iterator[tuple[int, Iterator[FlightEntry], int, int]]:
    """Per rank: (rank, its records, number that the filters choose, number in its dump).

    `whole`: stacks with torch's own frames.
    """
    from rankmuster.diagnose.flight_report.entries import chosen, entries

    context = examined.context
    for rank, (rows, count) in chosen(context, choice.ranks, choice.keys, choice.limit).items():
        yield (
            rank,
            entries(context, rank, rows, stacks=choice.stacks, whole=whole),
            count,
            len(context.table.rows[rank].dump.columns),
        )


def _aligned(examined: Examination, report: FlightReport, choice: _Choice) -> list[Aligned]:
    """The tables of the groups that are told in full."""
    from rankmuster.diagnose.flight_report.aligned import aligned
    from rankmuster.report.flight.terminal import told_in_full

    full, _ = told_in_full(report, choice.most_groups, choice.keys)
    tables = (aligned(examined.context, group, choice.ranks, choice.limit) for group in full)
    return [table for table in tables if table is not None]


def _pieces(lines: Iterator[str]) -> Iterator[str]:
    """Lines by the thousand: a large job's records do not fit into memory as text."""
    while piece := "".join(islice(lines, LINES_AT_ONCE)):
        yield piece


def _lines(examined: Examination, choice: _Choice) -> Iterator[str]:
    from rankmuster.report.flight import json_form

    for _, found, _, _ in _entries(examined, choice):
        yield from json_form.lines(found)


def _json(examined: Examination, report: FlightReport, choice: _Choice) -> str:
    from rankmuster.report.flight import json_form

    found = (entry for _, own, _, _ in _entries(examined, choice) for entry in own) if choice.entries else None
    slow = None
    if choice.slow is not None:
        from rankmuster.report import slow_json

        slow = slow_json.plain(*choice.slow)
    aligned = _aligned(examined, report, choice) if choice.aligned else None
    return json_form.render(
        examined.diagnosis.verdict, report, selected=choice.keys, entries=found, slow=slow, aligned=aligned
    )


def _terminal(examined: Examination, report: FlightReport, choice: _Choice, *, width: int | None, color: bool) -> str:
    """Rendered into memory first, see `rankmuster diagnose`."""
    import io

    from rich.console import Console

    from rankmuster.report.flight import terminal

    console = Console(
        file=io.StringIO(),
        width=width or max(shutil.get_terminal_size((100, 24)).columns, NARROWEST),
        force_terminal=color,
        no_color=not color,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    if choice.entries:
        terminal.head(examined.diagnosis.verdict, report, console)
        _print_entries(examined, choice, console)
    else:
        terminal.render(
            examined.diagnosis.verdict,
            report,
            console,
            most_groups=choice.most_groups,
            selected=choice.keys,
            aligned=_aligned(examined, report, choice) if choice.aligned else (),
        )
    if choice.slow is not None:
        from rankmuster.report import slow_text

        console.print()
        slow_text.render(choice.slow[0], console, choice.slow[1])
    text: str = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    return text if text.endswith("\n") else text + "\n"


def _print_entries(examined: Examination, choice: _Choice, console: Console) -> None:
    from rankmuster.report.flight.entries import print_entries
    from rankmuster.report.paper import Paper

    paper = Paper(console)
    left = MOST_PRINTED
    ranks = 0
    for rank, found, count, total in _entries(examined, choice, whole=False):
        if left <= 0:
            ranks += 1
            continue
        own = list(islice(found, left))
        left -= len(own)
        print_entries(paper, rank, own, count, total)
    if ranks:
        paper.line(
            paper.text(f"and {ranks} more ranks: narrow it with --rank or --group, or take --format jsonl", "dim")
        )
