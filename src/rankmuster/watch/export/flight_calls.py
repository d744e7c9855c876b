"""Calls and their durations per class of collective, from the column tables of Flight Recorder dumps. Pure.

A dump is a ring buffer's window: of a job that runs for days it holds the last thousands of calls of each rank, so
these are samples from around stops, not all calls. Blind to what the recorder is blind to (CUDA graphs, PyNccl).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from rankmuster.evidence.bundle import Evidence
from rankmuster.model.flight import FlightColumns, FlightDump, Floats, State
from rankmuster.watch.export.collectives import collective_of
from rankmuster.watch.signals.signal import Counted

WHAT = "collective"
"""The name of the quantity, as `Counted.what` has it; a value of NaN is a call whose duration nobody measured."""

DIGITS = 2
"""Of a duration that are kept: finer than any bucket, and thousands of calls become tens of values."""

_LONGEST = 7 * 86400.0
"""Seconds; a longer one is damage in the dump, as is a negative one."""


def flight_calls(evidence: Evidence) -> Iterable[Counted]:
    """Calls of all ranks by class, each with source "flight". Several dumps of one rank count once: the newest."""
    found: dict[str, list[Floats]] = defaultdict(list)
    for dump in _newest(evidence.of(FlightDump)):
        seconds = durations(dump.columns)
        classes = np.array([collective_of(op) for op in dump.columns.ops] + ["other"])
        named = classes[dump.columns.op] if len(dump.columns) else np.zeros(0, dtype=classes.dtype)
        for name in np.unique(named):
            found[str(name)].append(seconds[named == name])
    for name, parts in sorted(found.items()):
        values, counts = _few(np.concatenate(parts))
        yield Counted(WHAT, (("source", "flight"), ("collective", name)), values, counts)


def durations(columns: FlightColumns) -> Floats:
    """Seconds of each entry, shape (entries,); NaN for what has not completed, and where nothing was timed."""
    timed = (columns.started_ns > 0) & (columns.completed_ns > columns.started_ns)
    stamped = np.where(timed, (columns.completed_ns - columns.started_ns) * 1e-9, np.nan)
    seconds = np.where(np.isfinite(columns.duration_ms), columns.duration_ms * 1e-3, stamped)
    usable = (columns.state == State.COMPLETED) & (seconds >= 0) & (seconds < _LONGEST)
    found: Floats = np.where(usable, seconds, np.nan)
    return found


def _newest(dumps: tuple[FlightDump, ...]) -> list[FlightDump]:
    """One dump of each rank; of those that name none, all."""
    ranked: dict[int, FlightDump] = {}
    nameless = []
    for dump in dumps:
        if dump.rank is None:
            nameless.append(dump)
        elif dump.rank not in ranked or dump.columns.newest_ns > ranked[dump.rank].columns.newest_ns:
            ranked[dump.rank] = dump
    return [*ranked.values(), *nameless]


def _few(seconds: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Distinct values, rounded, and how often each came; NaN last."""
    known = seconds[np.isfinite(seconds)]
    positive = known > 0
    scale = np.ones_like(known)
    scale[positive] = 10.0 ** (np.floor(np.log10(known[positive])) - (DIGITS - 1))
    values, counts = np.unique(np.round(known / scale) * scale, return_counts=True)
    untimed = len(seconds) - len(known)
    return (
        (*map(float, values), *((math.nan,) if untimed else ())),
        (*map(float, counts), *((float(untimed),) if untimed else ())),
    )
