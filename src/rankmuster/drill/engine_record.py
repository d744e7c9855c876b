"""What an engine's front end received and gave, a line of JSON each, as it happens: proof of who was served by whom.

A line is whole in the file before the next one begins, so that it outlives the front end's end.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any


class What(str, Enum):
    READY = "ready"  # the address is open from now on
    RECEIVED = "received"  # a request, before anything else is done with it
    TOKENS = "tokens"  # a step has ended on all ranks
    ANSWERED = "answered"  # all of an answer is written
    REFUSED = "refused"  # with an error
    LEFT = "left"  # the client has gone
    ENDED = "ended"  # the scheduler has


@dataclass(frozen=True, slots=True)
class Recorded:
    """`at`: unix seconds. `more`: `number` and `name` (the client's own) of requests; `step`, `good` and `came`
    (numbers of requests) of tokens."""

    at: float
    what: What
    more: dict[str, Any]


class Record:
    """Appends to a file; from any thread."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()

    def write(self, what: What, **more: Any) -> None:
        """One line, with the time."""
        with self._lock:
            self._file.write(json.dumps({"at": time.time(), "what": what.value, **more}).encode() + b"\n")

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()


def read(path: Path) -> Iterator[Recorded]:
    """All whole lines; nothing where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for line in data.splitlines(keepends=True):
        if line.endswith(b"\n"):
            plain = json.loads(line)
            yield Recorded(plain.pop("at"), What(plain.pop("what")), plain)
