"""Flight Recorder dumps as torch writes them to files: a pickle of plain data (schema 2.1 to 2.10)."""

from __future__ import annotations

from typing import Any

from rankmuster.evidence import flight_native
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.flight_dump import looks_like_dump, reading
from rankmuster.evidence.flight_opcodes import PickleDamaged, PickleRefused, walk
from rankmuster.evidence.flight_table import ColumnBuilder
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

_TAKEN = True
"""What is left of an entry once its values are in the columns."""


def recognises(blob: Blob) -> bool:
    """A pickle of protocol 2 to 5; which kind of pickle, reading tells."""
    return len(blob.data) > 2 and blob.data[0] == 0x80 and 2 <= blob.data[1] <= 5


def read(blob: Blob) -> Reading:
    """One FlightDump, or the reason why the pickle was refused."""
    scanned = flight_native.scan(blob.data)
    if scanned is not None and looks_like_dump(scanned[0]):
        return reading(blob.path, "pickle", scanned[0], scanned[1], None)
    return read_pure(blob)


def read_pure(blob: Blob, repeats: bool = True) -> Reading:
    """The same without the native reader, and what that reader leaves to it.

    `repeats`: entries that only repeat what was there before are read many at a time; without it, opcode by opcode.
    """
    # Only loaded where there is no native reader, or where it leaves something: it compiles patterns.
    from rankmuster.evidence.flight_repeat import RepeatedEntries

    builder = ColumnBuilder()

    def take(value: dict[Any, Any]) -> Any:
        if "record_id" in value and "profiling_name" in value:
            builder.add(value)
            return _TAKEN
        return value

    damage = None
    try:
        top = walk(blob.data, take, RepeatedEntries(blob.data, builder) if repeats else None)
    except PickleRefused as refusal:
        message = f"a pickle that is not plain data, refused: {refusal}"
        return Reading((), (Problem(ProblemKind.REFUSED, blob.path, message),), 1)
    except PickleDamaged as broken:
        top, damage = broken.partial, str(broken)
    if not looks_like_dump(top):
        if damage:
            message = f"a pickle, and nothing of it is usable: {damage}"
            return Reading((), (Problem(ProblemKind.DAMAGED, blob.path, message),), 1)
        message = "a pickle of plain data, but not a Flight Recorder dump (no version with pg_config or entries)"
        return Reading((), (Problem(ProblemKind.UNREAD, blob.path, message),), 1)
    return reading(blob.path, "pickle", top, builder, damage)


READER = Reader("Flight Recorder pickle", Plane.FLIGHT, ReaderKind.DOCUMENT, recognises, read)
