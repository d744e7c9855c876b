"""Dumps compared value by value, but for stacks."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from rankmuster.evidence import flight_summary
from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.bundle import Evidence
from rankmuster.evidence.flight_summary_node import gathered
from rankmuster.evidence.flight_summary_write import encode
from rankmuster.model.flight import FlightColumns, FlightDump

WRITTEN = 1795980600.0
NODE = "n7"


def summarised(evidence: Evidence, host: str | None = None, node: str = NODE) -> bytes:
    return encode(gathered(evidence, node, host, WRITTEN))


def read(data: bytes) -> Reading:
    return flight_summary.read(Blob("summaries/n7.rfs", data))


def dumps_of(reading: Reading) -> list[FlightDump]:
    return [value for value in reading.observations if isinstance(value, FlightDump)]


def differences(one: FlightDump, other: FlightDump) -> list[str]:
    """Names of fields in which two dumps differ, those of their columns too; stacks are not compared."""
    found = [
        field.name
        for field in fields(FlightDump)
        if field.name != "columns" and getattr(one, field.name) != getattr(other, field.name)
    ]
    for field in fields(FlightColumns):
        mine, theirs = getattr(one.columns, field.name), getattr(other.columns, field.name)
        if field.name in ("stack", "stacks"):
            continue
        if isinstance(mine, np.ndarray):
            same = mine.dtype == theirs.dtype and mine.shape == theirs.shape
            if not (same and np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")):
                found.append(f"columns.{field.name}")
        elif mine != theirs:
            found.append(f"columns.{field.name}")
    return found
