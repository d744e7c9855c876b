"""Which history a command works with: the option, and the history open for a block with its errors as the command's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.store.history import History

_T = TypeVar("_T")

HistoryPlace = Annotated[
    str,
    typer.Option(
        "--history",
        metavar="PLACE",
        help="A file or postgresql:// URL; default: RANKMUSTER_HISTORY, then history.db in the state folder.",
    ),
]


def place(given: str) -> str:
    """The file or URL that is meant."""
    from rankmuster.store.place import default_place

    return given or default_place(os.environ)


@contextmanager
def opened(given: str, what: str, *, create: bool = False) -> Iterator[History]:
    """The history, open. `what`: is done with it ("listing the runs"). Raises CommandError for all that it raises."""
    with history_errors(what):
        from rankmuster.store.history import History

        with History.open(place(given), create=create) as history:
            yield history


def filled(given: str, what: str, work: Callable[[History], _T]) -> _T:
    """`work` with the history, which is made where there is none, and only if all goes well. Raises CommandError."""
    with history_errors(what):
        from rankmuster.store.history import History

        return History.fill(place(given), work)


@contextmanager
def history_errors(what: str) -> Iterator[None]:
    """Does `what`; errors of the store, and a missing library, are what the user can mend."""
    with doing(what):
        from rankmuster.store.errors import HistoryError
        from rankmuster.store.failures import missing

        try:
            yield
        except HistoryError as error:
            raise CommandError(str(error)) from error
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in ("sqlalchemy", "alembic", "psycopg", "pyarrow"):
                raise
            raise CommandError(str(missing(error))) from error
