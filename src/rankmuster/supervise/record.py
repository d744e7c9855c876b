"""What a supervisor remembers beyond its own death: which incarnation it started, what was asked of it, whom it had.

One small file beside the socket, written whole or not at all. It makes an operation that is asked for twice be done
once, and lets the next supervisor of that name find what a killed one left running.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from rankmuster.model.plain_json import Bounds, NotPlain, from_plain, to_plain

SCHEMA = "rankmuster.run/1"

MAX_BYTES = 4 << 20
MAX_EARLIER = 64
"""Starts and operations that are remembered: an instance is rebuilt some times an hour at most."""
MAX_ROSTER = 10_000

_BOUNDS = Bounds(text=4096, members=MAX_ROSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One process: `ticks`: its start, in clock ticks since boot."""

    pid: int
    ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`incarnation`: which one it ended or started. `ending`: None while it is being done."""

    name: str
    verb: str
    incarnation: str
    ending: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`incarnation`: started last, by `operation` where somebody asked for it; `ended`: it is gone, all of it.

    `supervisor`: who wrote this. `launcher`: the command's own process. `roster`: what it had started when looked at
    last. `earlier`: incarnations before, all of them gone; oldest first.
    """

    instance: str
    boot: str
    supervisor: Known
    incarnation: str | None = None
    operation: str | None = None
    at: float | None = None
    launcher: Known | None = None
    ended: bool = True
    exit_status: int | None = None
    ended_by_itself: bool = False
    roster: tuple[Known, ...] = ()
    earlier: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()

    def done(self, operation: str) -> Operation | None:
        """The operation of that name, where it was asked for."""
        return next((one for one in self.operations if one.name == operation), None)


class RecordUnreadable(Exception):
    """It is there, and cannot be read or is not one; the message says why."""


def read(path: Path) -> Record | None:
    """None where there is none. Raises RecordUnreadable."""
    try:
        with path.open("rb") as file:
            raw = json.loads(file.read(MAX_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RecordUnreadable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(raw, dict) or raw.pop("schema", None) != SCHEMA:
        raise RecordUnreadable(f"{path} is no {SCHEMA}")
    try:
        return from_plain(Record, raw, _BOUNDS)
    except NotPlain as error:
        raise RecordUnreadable(f"{path} is not as it was written: {error}") from error


def write(path: Path, record: Record) -> None:
    """Raises OSError; then the earlier file is still there."""
    text = json.dumps({"schema": SCHEMA, **to_plain(record, _BOUNDS)}, separators=(",", ":"))
    beside = path.with_name(f".{path.name}.part")
    try:
        with beside.open("w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
