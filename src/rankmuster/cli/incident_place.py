"""Which journal a command works with: the option, and the journal open for a block with its errors as the command's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.history_place import history_errors

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


@contextmanager
def opened(given: str, what: str, *, create: bool = False) -> Iterator[Journal]:
    """The journal, open. `what`: is done with it ("listing incidents"). Raises CommandError for all that it raises."""
    with history_errors(what):
        from rankmuster.store.journal import Journal

        with Journal.open(place(given), create=create) as journal:
            yield journal
