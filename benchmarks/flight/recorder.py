"""What one rank's recorder holds when it is looked at: its ring buffer, and the counters of its groups.

The watchdog looks every 100 ms: then it finds that calls have started or ended, and drops the ended ones from its list
(`retired`). What ended since is completed at the look itself and not retired. Without timing there is no start event.
Children of a batch have no events and never move. Backends without events say `retired` and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from benchmarks.flight.calls import Call, Pg
from benchmarks.flight.numbering import TERMINATOR, Numbered
from benchmarks.flight.play import NEVER, Played
from benchmarks.flight.settings import START_NS, Settings
from numpy.typing import NDArray

Longs = NDArray[np.int64]

SWEEP_US = 100_000
"""Between two looks of the watchdog (kWatchdogThreadSleepMillis of ProcessGroupNCCL)."""

PER_FINDING_NS = 33_000
"""Between two calls that one sweep finds (seen in the captured dumps)."""

SCHEDULED, STARTED, COMPLETED = range(3)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Arrays of shape (entries,), oldest first; times in ns, 0: none; `status` by process group: enqueued, started,
    completed."""

    kind: Longs
    record_id: Longs
    seq: Longs
    p2p: Longs
    op: Longs
    created_ns: Longs
    started_ns: Longs
    completed_ns: Longs
    duration_ms: NDArray[np.float64]  # NaN: the key is absent
    state: NDArray[np.int8]
    retired: NDArray[np.bool_]
    status: dict[Pg, tuple[int, int, int]]


def hold(job: Settings, numbered: Numbered, calls: tuple[Call, ...], played: Played, rank: int, look_us: int) -> Held:
    """The recorder of `rank` at `look_us` (microseconds since the start)."""
    own = int(played.lengths[rank])
    times = [table[rank, :own].astype(np.int64) for table in (played.enqueued, played.started, played.finished)]
    enqueued, started, finished = (np.where(column == int(NEVER), np.iinfo(np.int64).max, column) for column in times)
    made = int(np.searchsorted(enqueued, look_us, side="right"))
    phase = (rank * 7919 + job.seed * 31) % SWEEP_US
    # Without a watchdog's list the work itself says that it has ended.
    tick = _ticks(finished[:made], phase) if job.has_events else finished[:made]
    swept = tick <= look_us
    status = _status(job, numbered, made, started, swept, look_us)

    last = int(np.searchsorted(numbered.place, made, side="left"))
    first = max(0, last - job.entries)
    window = slice(first, last)
    place = numbered.place[window]
    kind = numbered.kind[window]
    parts = np.array([part for _, part in numbered.kinds], np.int64)
    batched = np.array([calls[index].closing is not None for index, _ in numbered.kinds], bool)
    moves = (~batched | (parts == TERMINATOR))[kind]
    done = finished[place] <= look_us
    begun = (started[place] <= look_us) & job.timing
    events = job.has_events
    state = np.where(done & moves & events, COMPLETED, np.where(begun & moves & events, STARTED, SCHEDULED))
    retired = swept[place] & moves
    offset = START_NS + _host_offset_ns(job, rank)
    found = np.minimum(tick, look_us)[place] * 1000 + _within_sweep(np.minimum(tick, look_us)[place])
    seen = np.minimum(_ticks(started[:made], phase), look_us)[place] * 1000
    started_ns = np.where((state != SCHEDULED) & job.timing, np.minimum(seen + 1000, found) + offset, 0)
    duration = np.where((state == COMPLETED) & job.timing, (finished[place] - started[place]) * 1e-3 + 1.1e-5, np.nan)
    held = Held(
        kind=kind,
        record_id=np.arange(first, last, dtype=np.int64) + numbered.first_record,
        seq=numbered.seq[window],
        p2p=numbered.p2p[window],
        op=numbered.op[window],
        created_ns=enqueued[place] * 1000 + offset + (place * 389 + rank * 97) % 1000,
        started_ns=started_ns,
        completed_ns=np.where(state == COMPLETED, found + 1_900 + offset, 0),
        duration_ms=duration,
        state=state.astype(np.int8),
        retired=retired,
        status=status,
    )
    return _only_active(held) if job.only_active else held


def _ticks(times: Longs, phase: int) -> Longs:
    """The sweep that first sees each time; the far future for what never is."""
    never = times > 2**40
    ticks: Longs = np.where(never, np.iinfo(np.int64).max // 2000, -(-(times - phase) // SWEEP_US) * SWEEP_US + phase)
    return ticks


def _within_sweep(ticks: Longs) -> Longs:
    """A sweep works its list through, one call after another."""
    if not len(ticks):
        return ticks
    fresh = np.concatenate([[True], ticks[1:] != ticks[:-1]])
    index = np.arange(len(ticks))
    offsets: Longs = (index - np.maximum.accumulate(np.where(fresh, index, 0))) * PER_FINDING_NS
    return offsets


def _host_offset_ns(job: Settings, rank: int) -> int:
    host = rank // job.ranks_per_host
    return int(job.clock_offset_s * 1e9 * (((host * 37 + job.seed * 11) % 201) - 100) / 100)


def _status(
    job: Settings, numbered: Numbered, made: int, started: Longs, swept: NDArray[np.bool_], look_us: int
) -> dict[Pg, tuple[int, int, int]]:
    """Collectives and messages share the counters: each is the number of the last one that got so far."""
    status = {}
    begun = (started[:made] <= look_us) & job.timing & job.has_events
    for kind in Pg:
        mine = numbered.pg[:made] == kind
        numbers = numbered.number[:made]
        status[kind] = (_last(numbers[mine]), _last(numbers[mine & begun]), _last(numbers[mine & swept]))
    return status


def _last(numbers: Longs) -> int:
    return int(numbers[-1]) if len(numbers) else -1


def _only_active(held: Held) -> Held:
    kept = held.state != COMPLETED
    columns = {name: getattr(held, name) for name in held.__dataclass_fields__ if name != "status"}
    return Held(**{name: column[kept] for name, column in columns.items()}, status=held.status)
