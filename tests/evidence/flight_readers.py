"""Every reader of dump pickles over the same bytes: what one makes of them, all do."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rankmuster.evidence import flight_native, flight_pickle
from rankmuster.evidence.blob import Blob, Reading

NAME = "flight/nccl_trace_rank_3"


def read(data: bytes) -> Reading:
    """What the program makes of `data`; AssertionError where the readers differ."""
    blob = Blob(NAME, data)
    reading = flight_pickle.read(blob)
    slow = flight_pickle.read_pure(blob, repeats=False)
    for other in (reading, flight_pickle.read_pure(blob)):
        difference = compared(other, slow)
        assert difference is None, difference
    return reading


def is_native(data: bytes) -> bool:
    """Whether the native reader takes it, and does not leave it to the pure one."""
    return flight_native.scan(data) is not None


def compared(mine: Reading, pure: Reading) -> str | None:
    """In what two readings of one dump differ."""
    if mine.problems != pure.problems or len(mine.observations) != len(pure.observations):
        return f"problems {mine.problems} and {pure.problems}"
    for one, other in zip(mine.observations, pure.observations, strict=True):
        found = _fields(one, other, skip="columns") or _fields(one.columns, other.columns, skip="")  # type: ignore[attr-defined]
        if found is not None:
            return found
    return None


def _fields(one: Any, other: Any, skip: str) -> str | None:
    for field in dataclasses.fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if field.name == "stacks":
            left, right = tuple(left), tuple(right)
        if isinstance(left, np.ndarray):
            same = left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
        else:
            same = field.name == skip or left == right
        if not same:
            return f"{field.name}: {left!r} and {right!r}"
    return None
