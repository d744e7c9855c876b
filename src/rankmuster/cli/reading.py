"""Evidence, read on all cores for a command, and examined; what goes wrong is the command's error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.options import named
from rankmuster.cli.status import CommandError, doing
from rankmuster.cli.workers import each_on_all_cores
from rankmuster.evidence.bundle import load
from rankmuster.evidence.folder import EvidenceError

if TYPE_CHECKING:
    from rankmuster.diagnose.run import Examination
    from rankmuster.evidence.bundle import Evidence


def read(path: Path) -> Evidence:
    """The evidence in `path`.

    Raises CommandError where nothing can be read.
    """
    with reading(f"the evidence in {path}", path):
        return load(path, each_on_all_cores())


@contextmanager
def reading(what: str, *paths: Path | str) -> Iterator[None]:
    """Reads `what`, as it is said where our own code fails. Raises CommandError for what cannot be read of `paths`."""
    with doing(f"reading {what}"):
        try:
            yield
        except EvidenceError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"cannot read {named(paths)}: {error.strerror or error}") from error


def examined(path: str, evidence: Evidence, earlier: Evidence | None = None) -> Examination:
    """The verdict on evidence that was read from `path`, with what it was made from. `earlier`: see `examine`.

    Raises CommandError where the evidence is of two instances.
    """
    with doing(f"diagnosing {path}"):
        from rankmuster.diagnose.run import MixedInstances, examine

        try:
            return examine(evidence, earlier=earlier)
        except MixedInstances as error:
            raise CommandError(str(error)) from error
