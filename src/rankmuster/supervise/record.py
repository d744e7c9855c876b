"""The file of what a supervisor remembers (`model.run_record`): read, and written whole or not at all.

One small file beside the socket. It makes an operation that is asked for twice be done once, and lets the next
supervisor of that name find what a killed one left running.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rankmuster.model.run_record import MAX_BYTES, Record, parse, written


class RecordUnreadable(Exception):
    """It is there, and cannot be read or is not one; the message says why."""


def read(path: Path) -> Record | None:
    """None where there is none. Raises RecordUnreadable."""
    try:
        with path.open("rb") as file:
            return parse(file.read(MAX_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordUnreadable(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise RecordUnreadable(f"{path} cannot be used: {error}") from error


def write(path: Path, record: Record) -> None:
    """Raises OSError; then the earlier file is still there."""
    text = written(record)
    beside = path.with_name(f".{path.name}.part")
    try:
        # whoever believes it wants to know that nobody else could write it
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
