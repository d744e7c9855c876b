"""An earlier set of dumps of the same job: whether each rank went on between the two, from the records alone.

Which set is the earlier one is the user's word, and checked: a ring's record ids only grow, and a record that both sets
hold has one time of enqueueing. A set of another run, or one that is not earlier, is told and never believed.
Blind to a stop that began after the earlier set in a job whose operations follow each other slower than the watchdog
sweeps, or whose backend has no events, where nothing says when the later set was taken. Dumps that list outstanding
operations alone show no motion in any case: of these it is said that nothing tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import attrgetter

import numpy as np

from rankmuster.diagnose.dump_choice import choose, oldest_outstanding, recorder_of
from rankmuster.diagnose.flight_rows import FlightRows, rows_of
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.model.dump_sets import Between, Since
from rankmuster.model.flight import FlightDump, PgStatus
from rankmuster.model.ranks_text import ranks_text


class Step(Enum):
    """What one rank did between the two sets."""

    WENT_ON = "went on"  # new records, and what it stands at is another operation, or none
    STOOD = "stood"
    QUEUED = "queued"  # new records, and the same operation outstanding
    DRAINED = "drained"  # no new record, and others finished
    LATER = "later"  # the set that was called earlier goes further
    STRANGER = "stranger"  # of another run


def compare(
    newest: Mapping[int, FlightRows],
    earlier: Iterable[FlightDump],
    looks: Mapping[str, float],
    limits: Thresholds,
    timed_out: bool,
) -> Between:
    """What `earlier` says of the judged dumps. `looks`: unix seconds per file of `newest`.

    `timed_out`: a watchdog's line says that the later set was written in a stop.
    """
    before = choose(earlier, {}, limits).newest
    if not before:
        return Between(Since.NO_DUMPS, "the earlier folder holds no dump of a known rank")
    pairs = {
        rank: (before[rank], flight.dump)
        for rank, flight in sorted(newest.items())
        if rank in before
        and len(flight.dump.columns)
        and len(before[rank].columns)
        and recorder_of(before[rank]) is recorder_of(flight.dump)
    }
    # Where nothing is outstanding, a dump of outstanding operations alone holds the counters alone.
    bare = {
        rank: step
        for rank, flight in sorted(newest.items())
        if rank in before
        and not (len(flight.dump.columns) and len(before[rank].columns))
        and (step := step_of_counters(before[rank], flight.dump)) is not None
    }
    uncompared = tuple(sorted((set(newest) | set(before)) - set(pairs) - set(bare)))
    if not pairs:
        return Between(Since.NO_DUMPS, "no rank left a dump of the same recorder in both sets", uncompared=uncompared)
    rows = {rank: newest[rank] for rank in pairs}
    went_on_for = min(new.columns.newest_ns - old.columns.newest_ns for old, new in pairs.values()) / 1e9
    steps: dict[Step, list[int]] = defaultdict(list)
    for rank, (old, _) in pairs.items():
        steps[step_of(rows_of(old), rows[rank])].append(rank)
    for rank, step in bare.items():
        steps[step].append(rank)
    strangers, later = tuple(steps[Step.STRANGER]), tuple(steps[Step.LATER])
    if len(strangers) * 2 >= len(pairs):
        note = (
            f"the dumps of {ranks_text(strangers)} in the two sets hold other calls under the same record ids, or lie "
            "wholly apart: the earlier folder is of another run"
        )
        return Between(Since.OTHER_RUN, note, uncompared=uncompared, strangers=strangers)
    if later:
        note = (
            f"the dumps of {ranks_text(later)} in the folder given as the earlier one go further than in the other: it "
            "is not earlier; swap the two"
        )
        return Between(Since.NOT_EARLIER, note, uncompared=uncompared, strangers=strangers)
    seconds = max(new.columns.newest_ns for _, new in pairs.values()) - max(
        old.columns.newest_ns for old, _ in pairs.values()
    )
    since, note = _since(steps, uncompared, rows, looks, limits, timed_out, went_on_for)
    return Between(
        since,
        note,
        went_on=tuple(sorted(steps[Step.WENT_ON])),
        stood=tuple(sorted(steps[Step.STOOD])),
        queued=tuple(sorted(steps[Step.QUEUED])),
        drained=tuple(sorted(steps[Step.DRAINED])),
        uncompared=uncompared,
        strangers=strangers,
        seconds=seconds / 1e9,
    )


def step_of(old: FlightRows, new: FlightRows) -> Step:
    """What happened to one rank's recorder between two dumps of it."""
    before, after = old.dump.columns, new.dump.columns
    last_before, last_after = int(before.record_id[-1]), int(after.record_id[-1])
    common, at_old, at_new = np.intersect1d(before.record_id, after.record_id, return_indices=True)
    if len(common):
        # One record has one time. (A recorder that was reset, or another process, begins at 0 again.)
        if bool((before.created_ns[at_old] != after.created_ns[at_new]).any()):
            return Step.STRANGER
    elif _apart(old, new):
        return Step.STRANGER
    backwards = (before.state[at_old] > after.state[at_new]) | (before.retired[at_old] & ~after.retired[at_new])
    if last_after < last_before or bool(backwards.any()):
        return Step.LATER
    head_before, head_after = _head(old), _head(new)
    completed = _counted(old.dump, new.dump, _COMPLETED)
    # Where the first outstanding operation is overwritten, the counters alone tell whether one has ended.
    moved = completed > 0 if new.head_lost else head_before != head_after or completed > 0
    if last_after > last_before:
        return Step.WENT_ON if head_after is None or moved else Step.QUEUED
    return Step.DRAINED if moved else Step.STOOD


def step_of_counters(old: FlightDump, new: FlightDump) -> Step | None:
    """The same where a dump holds no entry, from the counters; None where the two have none in common."""
    if set(old.status).isdisjoint(new.status):
        return None
    enqueued, completed = _counted(old, new, _ENQUEUED), _counted(old, new, _COMPLETED)
    if min(enqueued, completed) < 0:
        return Step.LATER
    if enqueued:
        return Step.WENT_ON
    return Step.DRAINED if completed or len(old.columns) > len(new.columns) else Step.STOOD


_ENQUEUED = attrgetter("last_enqueued")
_COMPLETED = attrgetter("last_completed")


def _counted(old: FlightDump, new: FlightDump, counter: Callable[[PgStatus], int]) -> int:
    """By how much a counter of `pg_status` grew over all groups that `new` counts; below 0 where one fell."""
    grown = 0
    for key, status in new.status.items():
        before = old.status.get(key)
        step = counter(status) - (counter(before) if before is not None else -1)
        if step < 0:
            return -1
        grown += step
    return grown


def _apart(old: FlightRows, new: FlightRows) -> bool:
    """Of two dumps without a common record: whether they cannot be of one recorder, by names or by order of time."""
    before, after = old.dump.columns, new.dump.columns
    if {group.name for group in before.groups}.isdisjoint(group.name for group in after.groups):
        return True
    later = int(after.record_id[-1]) > int(before.record_id[-1])
    lists_all = not old.dump.only_active and not new.dump.only_active
    return lists_all and later != (after.newest_ns > before.newest_ns)


def _head(flight: FlightRows) -> int | None:
    """Record id of the first operation that has not finished."""
    rows = flight.row[~flight.finished]
    first = int(rows[0]) if len(rows) else None
    message = flight.p2p.first_outstanding()
    if message is not None and (first is None or message.row < first):
        first = message.row
    return int(flight.dump.columns.record_id[first]) if first is not None else None


def _since(
    steps: Mapping[Step, list[int]],
    uncompared: tuple[int, ...],
    rows: Mapping[int, FlightRows],
    looks: Mapping[str, float],
    limits: Thresholds,
    timed_out: bool,
    went_on_for: float,
) -> tuple[Since, str]:
    went_on = steps.get(Step.WENT_ON, [])
    others = [rank for step, ranks in steps.items() if step is not Step.WENT_ON for rank in ranks]
    if not went_on and not steps.get(Step.QUEUED) and not steps.get(Step.DRAINED):
        note = "nobody enqueued or finished anything between the two sets (unless one is a copy of the other)"
        return Since.STANDS, note
    if others or uncompared:
        return Since.MIXED, _mixed(steps, uncompared)
    note = "every rank enqueued operations since, and none stands at what it stood at before"
    if any(flight.in_motion for flight in rows.values()):
        return Since.WENT_ON, note
    stopped = "a watchdog timed out" if timed_out else _stands(rows, looks, limits)
    if stopped is not None:
        return Since.STOPPED_SINCE, f"all ranks went on after the earlier set, and stand in the later one: {stopped}"
    if went_on_for < limits.stopped_seconds:
        note = f"all ranks went on, but the newest records are only {went_on_for:.2g} s apart: those may be the last"
        return Since.TOO_CLOSE, note
    if any(flight.dump.only_active and flight.dump.source not in looks for flight in rows.values()):
        note += (
            "; whether they still moved when the later set was taken is not known: its dumps list outstanding "
            "operations alone, which shows no motion, and nobody noted when they were taken"
        )
        return Since.UNTOLD, note
    if not all(flight.dump.source in looks for flight in rows.values()):
        note += "; when the later set was taken nobody noted, and a stop that began since would look the same"
    return Since.WENT_ON, note


def _stands(rows: Mapping[int, FlightRows], looks: Mapping[str, float], limits: Thresholds) -> str | None:
    """What shows that nothing moved any more when the later set was taken; None where nothing does."""
    old = [
        rank
        for rank, flight in rows.items()
        if (look := looks.get(flight.dump.source)) is not None and look - flight.newest > limits.tail_seconds
    ]
    if old:
        return f"the newest record of {ranks_text(old)} is old at the second look"
    if all(flight.is_brisk(limits.sweep_seconds) for flight in rows.values()):
        return "operations follow each other faster than the watchdog sweeps, and none is completed and not yet retired"
    newest = max(flight.newest for flight in rows.values())
    for rank, flight in rows.items():
        since = oldest_outstanding(flight)
        if since is not None and newest - since > max(limits.tail_seconds, limits.tail_gaps * flight.longest_gap):
            return f"rank {rank} stands at an operation that is older than a moving job's are"
    return None


def _mixed(steps: Mapping[Step, list[int]], uncompared: tuple[int, ...]) -> str:
    said = {
        Step.WENT_ON: "went on",
        Step.QUEUED: "enqueued more behind the same operation",
        Step.DRAINED: "finished some and enqueued nothing",
        Step.STOOD: "did nothing",
        Step.STRANGER: "left an earlier dump of another run",
    }
    parts = [f"{ranks_text(steps[step])} {words}" for step, words in said.items() if steps.get(step)]
    if uncompared:
        parts.append(f"of {ranks_text(uncompared)} there is no dump in both sets")
    return "between the two sets " + "; ".join(parts)
