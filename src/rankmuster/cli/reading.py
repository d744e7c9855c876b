"""A folder of evidence read for a verdict: on all cores, and what can be done meanwhile is done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.ahead import each_with_rows, import_ahead
from rankmuster.cli.status import CommandError, doing
from rankmuster.cli.workers import each_on_all_cores
from rankmuster.evidence import flight_native
from rankmuster.evidence.bundle import load
from rankmuster.evidence.folder import EvidenceError

if TYPE_CHECKING:
    from rankmuster.diagnose.flight_rows import FlightRows
    from rankmuster.evidence.bundle import Evidence
    from rankmuster.model.flight import FlightDump


def read(path: Path, *modules: str) -> tuple[Evidence, dict[FlightDump, FlightRows]]:
    """The evidence in `path`, and the rows of its dumps. `modules`: what else will be imported after.

    Raises CommandError where nothing can be read.
    """
    if flight_native.active():  # else readers are processes, which a fork beside another thread may leave locked
        import_ahead("rankmuster.diagnose.run", *modules)
    rows: dict[FlightDump, FlightRows] = {}
    with doing(f"reading the evidence in {path}"):
        try:
            evidence = load(path, each_with_rows(each_on_all_cores(), rows))
        except EvidenceError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    return evidence, rows
