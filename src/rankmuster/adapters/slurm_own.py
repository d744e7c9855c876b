"""What we have changed about a job of somebody else's: nodes added to its own exclusions, a hold. Slurm keeps one list
and does not say who put what into it, so that is kept in a file of our own.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Own:
    """`added`: nodes that are excluded for us alone. `held`: the run that we have put on hold before it began."""

    added: tuple[str, ...] = ()
    held: str | None = None


class OwnNotes:
    """By job. `path`: None keeps it in memory, for the life of this object."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, Own] = {}

    def of(self, job: str) -> Own:
        """What is known. A file that is missing or cannot be understood says nothing."""
        if self._path is None:
            return self._known.get(job, Own())
        try:
            with self._path.open("rb") as file:
                found = json.loads(file.read(MOST_BYTES))[job]
            added = tuple(one for one in found["added"] if isinstance(one, str))
            held = found["held"]
        except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
            return Own()
        return Own(added, held if isinstance(held, str) else None)

    def keep(self, job: str, own: Own) -> None:
        """On the disk before it returns. Raises OSError."""
        self._known[job] = own
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # One job a file of one instance: an older job's entry is of no use once there is a newer one.
        data = json.dumps({job: {"added": list(own.added), "held": own.held}}).encode()
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
