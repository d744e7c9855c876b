"""What each GPU did at the end of its samples: spinning, idle, moving bytes, or not to be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.memo import once
from rankmuster.diagnose.middle import median
from rankmuster.model.hardware import GpuTrack

GAP_SAMPLES = 5
"""Newest samples from which it is told how often a GPU is sampled."""


class Doing(str, Enum):
    SPINNING = "spinning"  # a kernel runs all the time and no byte moves on its links
    IDLE = "idle"  # no kernel runs and no byte moves
    MOVING = "moving"  # bytes move
    UNCLEAR = "unclear"
    FOREIGN = "foreign"  # another program runs on it too: it tells nothing of this instance
    GONE = "gone"  # its process left the GPU


@dataclass(frozen=True, slots=True)
class GpuState:
    """`since`: unix seconds from which it has been so without a break. `seconds`: for how long.

    `until`: the last sample looked at, the last one with the rank's process on the GPU.
    """

    doing: Doing
    since: float | None
    seconds: float
    sm_percent: float
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """All GPUs at the end of the samples, by rank. `until`: the last time that all tracks cover."""

    states: Mapping[int, GpuState]
    until: float | None

    def ranks(self, doing: Doing) -> tuple[int, ...]:
        """Ranks whose GPU does this."""
        return tuple(sorted(rank for rank, state in self.states.items() if state.doing is doing))


def spinning_since(states: Mapping[int, GpuState]) -> float | None:
    """Unix seconds from which all GPUs that spin at the end have done so; None where none spins."""
    return max((s.since for s in states.values() if s.doing is Doing.SPINNING and s.since is not None), default=None)


def rates(track: GpuTrack) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """KiB/s over all links between consecutive samples; NaN where no counter is known, shape (samples - 1,)."""
    counters = np.array(
        (
            track.nvlink_tx_kib,
            track.nvlink_rx_kib,
            track.pcie_tx_kib,
            track.pcie_rx_kib,
            track.rdma_tx_kib,
            track.rdma_rx_kib,
        )
    )
    seconds = np.maximum(track.time[1:] - track.time[:-1], 1e-3)
    steps = counters[:, 1:] - counters[:, :-1]
    # A counter that falls was reset: that step says nothing.
    usable = np.isfinite(steps) & (steps >= 0)
    total = np.where(usable, steps, 0.0).sum(axis=0) / seconds
    return np.where(usable.any(axis=0), total, np.nan)


def sample_gap(track: GpuTrack) -> float:
    """Seconds between two samples, ordinarily: the shortest of the newest intervals, since a failed one doubles it."""
    return float(np.diff(track.time[-GAP_SAMPLES:]).min()) if len(track.time) > 1 else 0.0


@once
def picture(context: Context) -> Picture:
    """The state of every GPU with samples; the GPUs of ranks that had left before the others spun are gone."""
    own = frozenset(rank.pid for rank in context.roster.ranks if rank.pid is not None)
    # Containers number their processes themselves: whether any number is one of ours says which numbers these are.
    known = any(pid in own for track in context.tracks.values() for pids in track.pids if pids for pid in pids)
    states = {rank: _state(context, rank, track, own, known) for rank, track in context.tracks.items()}
    spin = spinning_since(states)
    until = max((s.until for s in states.values() if s.until is not None), default=None)
    if spin is not None and until is not None:
        states = {rank: _beside(context, state, spin, until) for rank, state in states.items()}
    ends = [float(track.time[-1]) for track in context.tracks.values() if len(track.time)]
    return Picture(states, min(ends, default=None))


def _beside(context: Context, own: GpuState, spin: float, until: float) -> GpuState:
    """The state of a GPU whose process left before its peers began to spin is of another time than theirs."""
    if own.until is None or own.doing in (Doing.SPINNING, Doing.FOREIGN):
        return own
    seconds = context.limits.hardware_seconds
    left = own.until - spin < seconds and own.until + seconds < until
    return replace(own, doing=Doing.GONE) if left else own


def _state(context: Context, rank: int, track: GpuTrack, own: frozenset[int], known: bool) -> GpuState:
    limits = context.limits
    # The samples' end may be long after the processes were taken down: look at the time while they were there.
    end = _last_with_process(context, rank, track)
    if end < limits.hardware_samples:
        return GpuState(Doing.UNCLEAR, None, 0.0, float("nan"), float(track.time[end - 1]) if end else None)
    sm = track.sm_percent[:end]
    rate = rates(track)[: end - 1]
    time = track.time[:end]
    if _foreign(context, track, end, own, known):
        return GpuState(Doing.FOREIGN, None, 0.0, float(sm[-1]), float(time[-1]))
    tail = slice(-limits.hardware_samples + 1, None)
    still = np.where(np.isfinite(rate), rate, np.inf) < limits.moving_kib_per_s
    spinning = still & (sm[1:] >= limits.spin_percent)
    idle = still & (sm[1:] <= limits.idle_percent)
    median_sm = _median(sm[1:][tail])
    median_rate = _median(rate[tail])
    for doing, flags in ((Doing.SPINNING, spinning), (Doing.IDLE, idle)):
        run = _run_at_end(flags)
        if run >= limits.hardware_samples - 1:
            since = float(time[len(time) - 1 - run])
            if doing is Doing.IDLE and _perhaps_gone(context, rank, track):
                doing = Doing.GONE
            return GpuState(doing, since, float(time[-1]) - since, median_sm, float(time[-1]))
    if np.isfinite(median_rate) and median_rate >= limits.moving_kib_per_s:
        return GpuState(Doing.MOVING, None, 0.0, median_sm, float(time[-1]))
    return GpuState(Doing.UNCLEAR, None, 0.0, median_sm, float(time[-1]))


def _median(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """numpy's, of which a few values cost fifty times as much: NaN where one of them is."""
    known: list[float] = values.tolist()
    return float("nan") if any(value != value for value in known) else median(known)


def _last_with_process(context: Context, rank: int, track: GpuTrack) -> int:
    """Samples up to the last one that shows a process; where none is listed, up to the time of the rank's exit."""
    listed = [index for index, pids in enumerate(track.pids) if pids]
    if listed:
        return listed[-1] + 1
    exited_at = context.job.rank(rank).exited_at
    return len(track.time) if exited_at is None else int(np.searchsorted(track.time, exited_at))


def _perhaps_gone(context: Context, rank: int, track: GpuTrack) -> bool:
    """Whether the rank ended at an unknown time, and nothing shows its process on the idle GPU."""
    owner = context.job.rank(rank)
    return owner.exit_code is not None and owner.exited_at is None and not any(track.pids)


def _run_at_end(flags: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    broken = np.flatnonzero(~flags)
    return len(flags) if not len(broken) else len(flags) - 1 - int(broken[-1])


def _foreign(context: Context, track: GpuTrack, end: int, own: frozenset[int], known: bool) -> bool:
    """Whether a process outside the instance was on the GPU at the end. `known`: any GPU's numbers are the instance's.

    Containers have pids of their own: where no listed process is known, one process per GPU is taken as the rank's.
    """
    seen = {pid for pids in track.pids[max(end - context.limits.hardware_samples, 0) : end] if pids for pid in pids}
    strangers = seen - own
    if not strangers:
        return False
    # Another namespace's numbers, or a process of another instance: one alone may be the rank under another pid.
    return bool(seen & own) or len(seen) > 1 or known
