"""Slow collectives within `rankmuster flight`: the options, the measurement, and the files it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.output import say, write_bytes
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.diagnose.run import Examination
    from rankmuster.model.slow import SlowReport
    from rankmuster.model.slow_baseline import Baseline, Comparison

MOST_BASELINE_BYTES = 64 << 20
"""Of a baseline's file; sixteen windows of a few hundred kinds of collectives take 2 MB."""

Slow = Annotated[
    bool, typer.Option("--slow", help="Durations and arrivals per group, operation and size: who is late, since when.")
]
BaselineFile = Annotated[
    str | None,
    typer.Option("--baseline", metavar="FILE", help="Compare with what --save-baseline wrote; implies --slow."),
]
SaveBaseline = Annotated[
    str | None,
    typer.Option("--save-baseline", metavar="FILE", help="Add this window to FILE, or begin it; implies --slow."),
]
Parquet = Annotated[
    str | None,
    typer.Option("--parquet", metavar="FILE", help="Write the distributions, a row per group, call and rank."),
]
ParquetCollectives = Annotated[
    str | None,
    typer.Option(
        "--parquet-collectives", metavar="FILE", help="Write every collective: transfer, wait, who came last."
    ),
]


@dataclass(frozen=True, slots=True)
class SlowAsked:
    """What is wanted of slow collectives; None: that file is not."""

    show: bool = False
    baseline: Path | None = None
    save: Path | None = None
    parquet: Path | None = None
    collectives: Path | None = None

    @property
    def wanted(self) -> bool:
        """Whether anything is to be measured."""
        return self.show or any((self.baseline, self.save, self.parquet, self.collectives))

    @property
    def told(self) -> bool:
        """Whether the report says it, besides what goes to files."""
        return self.show or self.baseline is not None or self.save is not None


def slow_asked(
    *, show: bool, baseline: str | None, save: str | None, parquet: str | None, collectives: str | None
) -> SlowAsked:
    """The options as given; None: not given. Raises CommandError for one that is empty."""
    named = {
        "--baseline": baseline,
        "--save-baseline": save,
        "--parquet": parquet,
        "--parquet-collectives": collectives,
    }
    for option, text in named.items():
        if text == "":
            raise CommandError(f"{option} is empty (a variable that is not set?); name a file, or leave the option out")
    return SlowAsked(show, *(None if text is None else Path(text) for text in named.values()))


def measured(examined: Examination, asked: SlowAsked) -> tuple[SlowReport, Comparison | None]:
    """The measurement, compared with the baseline where one is given; the files that are asked for are written.

    Raises CommandError where a file cannot be read, written, or is not what it should be.
    """
    with doing("measuring slow collectives"):
        from rankmuster.diagnose.slow.measure import measure

        known = _read(asked.baseline) if asked.baseline is not None else None
        report = measure(examined.context, collectives=asked.collectives is not None)
        comparison = None
        if known is not None:
            from rankmuster.diagnose.slow.baseline_compare import compare

            comparison = compare(known, report)
    if asked.save is not None:
        _save(asked.save, report)
    if asked.parquet is not None or asked.collectives is not None:
        _parquet(asked, report)
    return report, comparison


def _read(path: Path) -> Baseline:
    from rankmuster.diagnose.slow.baseline_file import BaselineDamaged, loads

    try:
        with path.open("rb") as file:
            data = file.read(MOST_BASELINE_BYTES + 1)
    except OSError as error:
        raise CommandError(
            f"cannot read the baseline {path}: {error.strerror or error}; --save-baseline writes one"
        ) from error
    if len(data) > MOST_BASELINE_BYTES:
        raise CommandError(f"{path} is larger than {MOST_BASELINE_BYTES >> 20} MiB, which no baseline is")
    try:
        return loads(data, str(path))
    except BaselineDamaged as error:
        raise CommandError(str(error)) from error


def _save(path: Path, report: SlowReport) -> None:
    from rankmuster.diagnose.slow.baseline import BaselineRefused, add
    from rankmuster.diagnose.slow.baseline_file import dumps

    known = _read(path) if path.exists() else None
    try:
        baseline = add(known, report)
    except BaselineRefused as error:
        raise CommandError(f"nothing was saved to {path}: {error}") from error
    write_bytes(path, dumps(baseline))
    say(f"wrote {path}, a baseline of {len(baseline.windows)} window(s)")


def _parquet(asked: SlowAsked, report: SlowReport) -> None:
    from rankmuster.report import slow_parquet

    try:
        for path, made in ((asked.parquet, slow_parquet.write), (asked.collectives, slow_parquet.write_collectives)):
            if path is not None:
                write_bytes(path, made(report))
                say(f"wrote {path}")
    except slow_parquet.ParquetMissing as error:
        raise CommandError(str(error)) from error
