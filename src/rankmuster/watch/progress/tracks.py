"""The samples of the GPUs, merged from the pieces that each look brings into one track a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.model.hardware import COLUMNS, GpuTrack

COUNTERS = slice(4, 10)
"""Of `COLUMNS`, the counters."""

MOVED_KIB_PER_S = DEFAULTS.moving_kib_per_s

SAME_SECONDS = 1e-3
"""Samples of one GPU that are closer are one sample that came twice."""

Key = tuple[str | None, int]


@dataclass(slots=True)
class _Held:
    """`time`: monotonic seconds, rising; `values`: shape (columns, samples)."""

    newest: GpuTrack
    time: NDArray[np.float64]
    values: NDArray[np.float64]
    pids: tuple[tuple[int, ...] | None, ...]


class Tracks:
    """Bounded: `most_gpus` GPUs of `most_samples` samples of ten numbers and the pids (about 12 KB a GPU)."""

    def __init__(self, most_gpus: int, most_samples: int) -> None:
        self._most_gpus = most_gpus
        self._most_samples = most_samples
        self._held: dict[Key, _Held] = {}

    def add(self, piece: GpuTrack, shift: float) -> None:
        """Takes samples; `shift`: what to add to their unix times to reach the monotonic clock."""
        if not len(piece.time):
            return
        time = piece.time + shift
        values = np.array([getattr(piece, name) for name in COLUMNS], dtype=np.float64)
        pids = piece.pids
        key = (piece.host, piece.gpu)
        held = self._held.get(key)
        if held is None:
            if len(self._held) >= self._most_gpus:
                return
        elif held.newest.uuid is None or piece.uuid is None or held.newest.uuid == piece.uuid:
            time = np.concatenate((held.time, time))
            values = np.concatenate((held.values, values), axis=1)
            pids = (*held.pids, *pids)
        # Another UUID under this number is another GPU: what was seen of the one before says nothing of it.
        if (np.diff(time) < SAME_SECONDS).any():
            order = np.argsort(time, kind="stable")
            order = order[np.concatenate(([True], np.diff(time[order]) >= SAME_SECONDS))]
            time, values, pids = time[order], values[:, order], tuple(pids[index] for index in order)
        cut = max(len(time) - self._most_samples, 0)
        self._held[key] = _Held(piece, time[cut:], values[:, cut:], pids[cut:])

    def drop_before(self, oldest: float) -> None:
        """Forgets samples from before `oldest` (monotonic seconds), and GPUs that have none left."""
        for key, held in list(self._held.items()):
            cut = int(np.searchsorted(held.time, oldest))
            if cut == len(held.time):
                del self._held[key]
            elif cut:
                self._held[key] = _cut(held, cut)

    def clear(self) -> None:
        """Forgets everything."""
        self._held.clear()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def last(self) -> float | None:
        """Monotonic seconds of the newest sample, None without any."""
        return max((float(held.time[-1]) for held in self._held.values()), default=None)

    def tracks(self, offset: float) -> tuple[GpuTrack, ...]:
        """One track a GPU in the order of host and number; `offset`: monotonic to unix seconds."""
        ordered = sorted(self._held.items(), key=lambda item: (item[0][0] or "", item[0][1]))
        return tuple(
            replace(
                held.newest,
                time=held.time + offset,
                pids=held.pids,
                **dict(zip(COLUMNS, held.values, strict=True)),
            )
            for _, held in ordered
        )


def _cut(held: _Held, cut: int) -> _Held:
    """Without the first `cut` samples, but for the last two between which bytes moved, where none moved since.

    That a GPU has exchanged bytes before is what tells waiting for its peers from a computation of its own.
    """
    newest = held.values[COUNTERS, -1] - held.values[COUNTERS, -2]
    if newest[newest > 0].sum() >= MOVED_KIB_PER_S * (held.time[-1] - held.time[-2]):
        # The ordinary case: it is seen to move now.
        return _Held(held.newest, held.time[cut:], held.values[:, cut:], held.pids[cut:])
    rose = np.diff(held.values[COUNTERS], axis=1)
    moved = np.flatnonzero(np.nansum(np.where(rose > 0, rose, 0.0), axis=0) >= MOVED_KIB_PER_S * np.diff(held.time))
    kept = np.arange(len(held.time)) >= cut
    if len(moved) and moved[-1] < cut:
        kept[moved[-1] : moved[-1] + 2] = True
    chosen = np.flatnonzero(kept)
    pids = tuple(held.pids[index] for index in chosen)
    return _Held(held.newest, held.time[chosen], held.values[:, chosen], pids)
