"""`rankmuster history import`, `export`, `upgrade` and `forget`: a history as a whole."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.history_named import length
from rankmuster.cli.history_place import HistoryPlace, filled, history_errors, opened, place
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError, ExitStatus
from rankmuster.report.history_words import when

if TYPE_CHECKING:
    from rankmuster.store.history import History
    from rankmuster.store.parquet_rows import Counted


def import_(
    files: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="What `history export` wrote: folders and .parquet files.")
    ],
    history: HistoryPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Take in exports: runs, fingerprints, change points and admissions, all of them or, where one is bad, none.

    What is there already stays as it is, so that an import may be repeated. Results of a benchmark: `history add`.

    Exit status: 0 taken in, 3 a file is damaged or no export, it contradicts what is stored, or bad usage.
    """

    def work(store: History) -> tuple[Counted, str]:
        from rankmuster.store.parquet_read import read_parquet

        return read_parquet(store, files), store.name

    done, name = filled(history, "importing", work)
    say(
        f"{name}: stored {done.runs} runs with {done.results} results, {done.fingerprints} fingerprints, "
        f"{done.changes} change points and {done.admissions} admissions; {done.known} were there already"
    )
    if done.differing:
        say(
            f"{done.differing} change points are decided otherwise here, and stay so: `rankmuster history changes list`"
        )
    return ExitStatus.HEALTHY


def export(
    output: Annotated[
        Path,
        typer.Option(
            "--output", metavar="PATH", help="A new folder, with a file per table, or one file: NAME.parquet."
        ),
    ],
    history: HistoryPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Write everything as parquet, of one moment, whole or not at all: for notebooks, copies and other databases.

    Exit status: 0 written, 3 there is no history, or it cannot be written, or bad usage.
    """
    with opened(history, "exporting") as store:
        from rankmuster.store.parquet_write import write_parquet

        counts = write_parquet(store, output)
    say(f"wrote {output}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return ExitStatus.HEALTHY


def upgrade(
    history: HistoryPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Bring the tables of a history up to date with this program, all of it or nothing; what is stored stays.

    A file is brought up to date whenever it is opened. A PostgreSQL database is not, since older programs of a fleet
    could not use it then; and beside tables of something else a history's are made only by this command.

    Exit status: 0 up to date, 3 it is newer than this program, cannot be changed, or bad usage.
    """
    with history_errors("bringing the tables up to date"):
        from rankmuster.store.history import History
        from rankmuster.store.place import without_passwords

        before, now = History.upgrade(place(history))
        name = without_passwords(place(history))
    if before == now:
        say(f"{name} is up to date: version {now}")
    else:
        say(f"{name}: version {before or 'none'} became {now}")
    return ExitStatus.HEALTHY


def forget(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="LENGTH", help="Runs that started longer ago than this: 365d, 52w.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; otherwise they are only counted.")] = False,
    history: HistoryPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Remove old runs with their results, for ever. Fingerprints, admissions and change points stay.

    Exit status: 0 counted or removed, 3 there is no such history, or bad usage.
    """
    seconds = length(older_than, "--older-than")
    if seconds < 1:
        raise CommandError(f"--older-than {older_than!r} would remove every run; name a longer time")
    before = time.time() - seconds
    with opened(history, "removing old runs") as store:
        count = store.forget(before, dry=not yes)
        name = store.name
    if yes:
        say(f"{name}: removed {count} runs that started before {when(before)} UTC, with all their results")
    else:
        say(
            f"{name}: {count} runs started before {when(before)} UTC and would be removed for ever, with all their "
            "results; nothing was removed, give --yes to do it"
        )
    return ExitStatus.HEALTHY
