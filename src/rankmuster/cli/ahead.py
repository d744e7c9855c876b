"""What can be done while files are read on other cores: modules imported, rows of dumps told apart."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankmuster.diagnose.flight_rows import FlightRows
    from rankmuster.evidence.bundle import Each
    from rankmuster.model.flight import FlightDump


_NAME = "imports"


def import_ahead(*modules: str) -> None:
    """Imports `modules` beside what follows; whoever imports one of them then waits for it, or has it."""
    threading.Thread(target=_import, args=(modules,), name=_NAME, daemon=True).start()


def wait_for_imports() -> None:
    """Returns when everything that is imported ahead is there.

    A process that is forked before would wait for ever for a module that only the thread it lacks could finish.
    """
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join()


def _import(modules: tuple[str, ...]) -> None:
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:  # whoever needs it imports it again, and has the error to tell
            return


def each_with_rows(each: Each, rows: dict[FlightDump, FlightRows]) -> Each:
    """`each`, with the rows of every dump told apart as soon as it is read, into `rows`."""
    from rankmuster.diagnose.flight_rows import rows_of
    from rankmuster.model.flight import FlightDump

    def with_rows(call: Callable[[Any], Any], parts: Iterable[Any]) -> Iterator[Any]:
        for taken in each(call, parts):
            for one in taken.observations:
                if isinstance(one, FlightDump):
                    rows[one] = rows_of(one)
            yield taken

    return with_rows
