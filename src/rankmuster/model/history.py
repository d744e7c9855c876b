"""What the history of a fingerprint class says: columns per cell, ready for statistics, and its change points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.benchmark import AlgorithmChoice, Cell
from rankmuster.model.hardware import Floats

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CellHistory:
    """One cell over COMPLETE runs since the last accepted change point, oldest first; all arrays of shape (runs,).

    `run`: index into `ClassHistory.runs`. `busbw` in GB/s, `time_us` and `min_us` in microseconds, NaN where unknown.
    `rank_spread_percent`: (slowest - fastest rank) / fastest, NaN where unknown; None where it was not read.
    """

    cell: Cell
    run: Ints
    busbw: Floats
    time_us: Floats
    min_us: Floats
    rank_spread_percent: Floats | None = None


class ChangeState(str, Enum):
    """A change point is marked when it is found and stays marked: only a person makes the new level the baseline."""

    OPEN = "open"  # found; the baseline is still what was before it
    ACCEPTED = "accepted"  # the baseline begins at it
    DISMISSED = "dismissed"  # judged to be none (a bad week of one switch): the runs after it are kept out


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A step in a class's level. `at`: unix seconds; `cell`: None for all of the profile. Levels in GB/s of busbw.

    `until`: unix seconds; of a dismissed one, where the runs that are kept out end (None: at the next accepted one).
    """

    class_hash: str
    profile: str
    cell: Cell | None
    at: float
    before: float | None
    after: float | None
    nodes: int  # how many nodes show it
    state: ChangeState
    note: str = ""
    id: int | None = None  # the store's
    until: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ClassHistory:
    """Runs of one class and profile. `nodes[i]`, `started_at[i]`, `records[i]` belong to run i.

    `total`: runs that the store has, of which these are the newest (`limit` of the question), spread over nodes.
    `kept_out`: runs by state that are not among them (errored, contended, ...).
    `choices[i]`: what NCCL chose in run i; () where that was not read.
    """

    class_hash: str
    profile: str
    nodes: tuple[str, ...]
    started_at: Floats
    records: tuple[str, ...]
    cells: Mapping[Cell, CellHistory]
    change_points: tuple[ChangePoint, ...]
    total: int
    kept_out: Mapping[str, int]
    choices: tuple[tuple[AlgorithmChoice, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class KinClass:
    """A class with the same hardware and software. `runs`: COMPLETE ones of the profile, from `nodes` nodes."""

    class_hash: str
    settings: Mapping[str, str]
    runs: int
    nodes: int


@dataclass(frozen=True, slots=True)
class ClassCount:
    """How much the history holds of one class and profile. `states`: runs by state; times in unix seconds."""

    class_hash: str
    kin_hash: str
    settings: Mapping[str, str]
    profile: str
    nodes: int
    states: Mapping[str, int]
    first: float
    last: float
    open_changes: int
