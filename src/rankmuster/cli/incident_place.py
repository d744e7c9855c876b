"""Which journal a command works with: the option, and the journal open for a block with its errors as the command's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.history_place import history_errors
from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.store.journal import Journal

JournalPlace = Annotated[
    str,
    typer.Option(
        "--journal",
        metavar="PLACE",
        help="A file or postgresql:// URL; default: RANKMUSTER_JOURNAL, then incidents.db in the state folder.",
    ),
]


def place(given: str) -> str:
    """The file or URL that is meant."""
    from rankmuster.store.kind import JOURNAL
    from rankmuster.store.place import default_place

    return given or default_place(os.environ, JOURNAL)


def missing(given: str) -> Path | None:
    """The file that the journal would be, where there is none yet; None for a database on a server."""
    with history_errors("looking for the journal"):
        from rankmuster.store.kind import JOURNAL
        from rankmuster.store.place import place_of

        file = place_of(place(given), JOURNAL).file
    return file if file is not None and not file.exists() else None


def none_yet(given: str) -> Path | None:
    """The file that the journal would be by default, where nobody has made it yet.

    Raises CommandError where one was named and is not there: a name that was mistyped must not say that nothing is
    open.
    """
    from rankmuster.store.kind import JOURNAL

    file = missing(given)
    if file is not None and (given or os.environ.get(JOURNAL.variable)):
        raise CommandError(
            f"there is no journal at {file}, so that nothing is known of any incident: `rankmuster incident serve` "
            "makes it; is it the one that its settings name?"
        )
    return file


@contextmanager
def opened(given: str, what: str, *, create: bool = False) -> Iterator[Journal]:
    """The journal, open. `what`: is done with it ("listing incidents"). Raises CommandError for all that it raises."""
    with history_errors(what):
        from rankmuster.store.journal import Journal

        with Journal.open(place(given), create=create) as journal:
            yield journal
