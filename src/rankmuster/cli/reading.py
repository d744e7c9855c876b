"""A folder of evidence, read on all cores for a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.status import CommandError, doing
from rankmuster.cli.workers import each_on_all_cores
from rankmuster.evidence.bundle import load
from rankmuster.evidence.folder import EvidenceError

if TYPE_CHECKING:
    from rankmuster.evidence.bundle import Evidence


def read(path: Path) -> Evidence:
    """The evidence in `path`.

    Raises CommandError where nothing can be read.
    """
    with doing(f"reading the evidence in {path}"):
        try:
            return load(path, each_on_all_cores())
        except EvidenceError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
