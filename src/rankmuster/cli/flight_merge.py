"""`rankmuster flight merge`: the summaries of many nodes as one set of dumps, and the report on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankmuster.cli.flight_options import (
    MOST_GROUPS,
    MOST_RECORDS,
    AlignedToo,
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
from rankmuster.cli.flight_show import WHENCE, tell
from rankmuster.cli.flight_slow import BaselineFile, Parquet, ParquetCollectives, SaveBaseline, Slow, slow_asked
from rankmuster.cli.gc_off import gc_off
from rankmuster.cli.options import Debug, OutputFile, named
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, doing
from rankmuster.cli.verdict_output import NoColor, Width

if TYPE_CHECKING:
    from rankmuster.evidence.bundle import Each, Evidence
    from rankmuster.evidence.flight_summary_merge import Merging


def merge(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE_OR_FOLDER...", help="Summaries, folders of them; plain dumps and other evidence go too."
        ),
    ],
    group: Groups = None,
    rank: Ranks = None,
    stacks: Stacks = False,
    entries: Entries = False,
    aligned: AlignedToo = False,
    limit: Limit = MOST_RECORDS,
    previous: Annotated[
        list[str] | None,
        typer.Option(
            "--previous", metavar="FILE_OR_FOLDER", help="An earlier set of summaries of the same job; may repeat."
        ),
    ] = None,
    most_groups: MostGroups = MOST_GROUPS,
    differences: Differences = 0,
    slow: Slow = False,
    baseline: BaselineFile = None,
    save_baseline: SaveBaseline = None,
    parquet: Parquet = None,
    parquet_collectives: ParquetCollectives = None,
    form: Form = Format.TERMINAL,
    output: OutputFile = None,
    width: Width = None,
    no_color: NoColor = False,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Show what the summaries of many nodes say together, as `rankmuster flight` does of their dumps.

    The verdict is that of the dumps themselves. The same summary or dump twice counts once; ranks that two nodes claim
    at the same time, summaries of another run, damaged ones and ranks that no summary holds are told. Of stacks there
    are only those of each rank's last call.

    Exit status: 0 healthy, 1 a fault was found, 2 the evidence does not decide or nothing could see, 3 no answer
    (bad usage, no dump, unreadable input, summaries of two runs).
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
    paths = [_path(one) for one in given]
    before = [_path(one) for one in previous or ()]
    with gc_off():
        evidence = _merged(paths)
        earlier = _merged(before) if before else None
        return tell(named(paths), evidence, earlier, wanted)


def _path(given: str) -> Path:
    if not given:
        raise CommandError("a path is empty (a variable that is not set?); name a summary, or a folder of them")
    return Path(given)


def _merged(paths: list[Path]) -> Evidence:
    """All evidence of all paths, settled. Raises CommandError where there is no dump in it, or two runs are."""
    with doing("loading the program"):
        load_numpy()
        from rankmuster.cli.reading import reading
        from rankmuster.diagnose.thresholds import DEFAULTS
        from rankmuster.evidence.bundle import load_all
        from rankmuster.evidence.flight_summary_merge import Merging, MixedRuns
        from rankmuster.model.flight import FlightDump

    merging = Merging(int(DEFAULTS.dump_spread_seconds * 1e9))
    with reading(f"the summaries in {named(paths)}", *paths):
        try:
            evidence = merging.settle(load_all(paths, _taking(merging)))
        except MixedRuns as error:
            raise CommandError(str(error)) from error
    if not evidence.of(FlightDump):
        found = evidence.problems[0] if evidence.problems else None
        why = f" ({found.source}: {found.message})" if found is not None else ""
        raise CommandError(
            f"{named(paths)}: no summary and no dump in it{why}. rankmuster flight summarize makes summaries, on each "
            f"node; {WHENCE}"
        )
    return evidence


def _taking(merging: Merging) -> Each:
    """A mapper that settles each file as soon as it is read, so that nothing is held twice."""
    from rankmuster.cli.workers import each_on_all_cores
    from rankmuster.evidence import flight_native

    # Processes would have to send the tables over, which takes longer than to make them from a summary.
    inner: Each = each_on_all_cores() if flight_native.active() else map

    def each(call: Callable[[Any], Any], parts: Iterable[Any]) -> Iterator[Any]:
        return map(merging.take, inner(call, parts))

    return each
