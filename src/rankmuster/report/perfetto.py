"""The evidence as a trace for ui.perfetto.dev: a process per rank, a track per group, and counters.

Chrome's JSON trace format ("Trace Event Format", Google, 2016): `X` slices, `i` instants, `C` counters, `M` names;
times in microseconds. Perfetto drops a slice that overlaps another on its track without lying inside it, and operations
in flight do overlap, so a group gets as many tracks as it takes; the first has most.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rankmuster.model.job import Job
from rankmuster.model.verdict import Verdict
from rankmuster.report.html_findings import source_of
from rankmuster.report.inert import plain
from rankmuster.report.operations import OUTSTANDING, ROW_MARKS, Operations, operations
from rankmuster.report.ras_answers import poll_time
from rankmuster.report.series import Curve, bounds, engine_curves, link_rate
from rankmuster.report.words import class_name, place

MAX_SLICES = 200_000
"""Slices of all ranks together, the newest of each rank first: about 60 MB, which the page still opens with ease."""

MAX_TRACKS = 64
"""Tracks of one group on one rank; what would need more is counted, not drawn."""

ENGINE_PID = 1_000_000
VERDICT_PID = 2_000_000
"""Process numbers of what is no rank. A rank's is its number plus one: Perfetto takes process 0 for the idle task."""

TRACKS_PER_RANK = 100_000
"""Thread numbers are kept apart between processes: trace readers take them for the machine's own."""

Event = dict[str, Any]


class _Clock:
    """Unix seconds -> microseconds since the trace's start, whole nanoseconds."""

    def __init__(self, start: float) -> None:
        self.start = start

    def us(self, seconds: float) -> float:
        return max(0.0, round((seconds - self.start) * 1e6, 3))


def _start(verdict: Verdict, job: Job, tables: Mapping[int, Operations]) -> float:
    """The window's start, or the earliest time in the evidence where that is before it (no time may be negative)."""
    times = [table.created for table in tables.values()] + [track.time for track in job.tracks.values()]
    times += [engine.tokens.time for engine in engine_curves(job)]
    known = [value for value in (verdict.window.start, job.window[0], verdict.window.fault_at) if value is not None]
    covered = bounds((None, None), times)
    if covered is not None:
        known.append(covered[0])
    known = [value for value in known if math.isfinite(value)]
    return min(known) if known else 0.0


def _named(pid: int, name: str, order: int, tid: int | None = None) -> list[Event]:
    what = "process" if tid is None else "thread"
    base: Event = {"ph": "M", "pid": pid, "tid": 0 if tid is None else tid, "ts": 0}
    return [
        {**base, "name": f"{what}_name", "args": {"name": name}},
        {**base, "name": f"{what}_sort_index", "args": {"sort_index": order}},
    ]


class _Tracks:
    """Slices of one group on one rank, laid onto tracks on which they only nest."""

    def __init__(self) -> None:
        self._open: list[list[float]] = []  # per track the ends of the slices that are still open

    def put(self, start: float, end: float) -> int | None:
        """The track for a slice; slices come in order of start, longer ones first. None: there is no room."""
        for index, ends in enumerate(self._open):
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                return index
        if len(self._open) >= MAX_TRACKS:
            return None
        self._open.append([end])
        return len(self._open) - 1


def _slices(job: Job, table: Operations, clock: _Clock, limit: int) -> tuple[list[Event], int]:
    """Events of one rank's operations, and how many operations were left out."""
    rows = np.flatnonzero(~np.isnan(table.created))
    rows = rows[np.argsort(table.created[rows], kind="stable")]
    left = len(table.created) - len(rows) + max(0, len(rows) - limit)
    rows = rows[max(0, len(rows) - limit) :]
    groups = {group.key: (index, plain(group.label, 80)) for index, group in enumerate(job.groups)}
    tracks: dict[int, _Tracks] = {}
    names: dict[tuple[int, int], str] = {}
    pid = table.rank + 1
    waiting = {ROW_MARKS.index(mark) for mark in OUTSTANDING}
    spans = []
    for row in rows.tolist():
        start = clock.us(float(table.created[row]))
        until = float(table.ended[row])
        if math.isnan(until):
            until = table.look if table.look is not None else float(table.created[row])
        spans.append((start, max(start, clock.us(until)), row))
    events = []
    for start, end, row in sorted(spans, key=lambda span: (span[0], -span[1], span[2])):
        key = int(table.group[row])
        index, label = groups.get(key, (len(groups), "unknown group"))
        track = tracks.setdefault(index, _Tracks()).put(start, end)
        if track is None:
            left += 1
            continue
        names[index, track] = label if track == 0 else f"{label} (overlapping, {track + 1})"
        mark, open_ended = ROW_MARKS[int(table.mark[row])], int(table.mark[row]) in waiting
        number = f"{'p2p ' if table.p2p[row] else ''}#{int(table.seq[row])}"
        name = f"{plain(table.op_name(row), 60)} {number}"
        events.append(
            {
                "ph": "X",
                "name": f"OUTSTANDING {name}" if open_ended else name,
                "cat": "outstanding" if open_ended else "collective",
                "pid": pid,
                "tid": pid * TRACKS_PER_RANK + index * MAX_TRACKS + track + 1,
                "ts": start,
                "dur": round(end - start, 3),
                "args": {
                    "state": mark.value,
                    "measured": "host: from enqueued to found complete by the watchdog; not kernel time"
                    if not open_ended
                    else "host: from enqueued to the look; it had not ended",
                    "source": plain(table.source, 200),
                },
            }
        )
    for (index, track), label in sorted(names.items()):
        tid = pid * TRACKS_PER_RANK + index * MAX_TRACKS + track + 1
        events += _named(pid, label, index * MAX_TRACKS + track, tid)
    return events, left


def _counter(pid: int, name: str, unit: str, curve: Curve, clock: _Clock) -> list[Event]:
    return [
        {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": clock.us(time), "args": {unit: round(value, 3)}}
        for time, value in zip(curve.time.tolist(), curve.value.tolist(), strict=True)
        if math.isfinite(value) and math.isfinite(time)
    ]


def _moment(reference: str, job: Job, tables: Mapping[int, Operations]) -> float | None:
    """When the observation of a reference was: of a dump's sequence number its enqueue, of a RAS reply its poll."""
    source = source_of(reference)
    number = reference[len(source) + 1 :]
    for table in tables.values():
        if table.source == source and number.isdigit() and len(number) < 19:  # it must fit 64 bits
            rows = np.flatnonzero((table.seq == int(number)) & ~np.isnan(table.created))
            return float(table.created[rows[-1]]) if len(rows) else None
    for poll in job.polls:
        if poll.source == source:
            return poll_time(poll)
    return None


def _instants(verdict: Verdict, job: Job, tables: Mapping[int, Operations], clock: _Clock) -> list[Event]:
    """The fault, and each finding at the newest observation it rests on (at the fault where none has a time)."""
    base: Event = {"ph": "i", "s": "g", "pid": VERDICT_PID, "tid": VERDICT_PID}
    fault, end = verdict.window.fault_at, verdict.window.end
    events = []
    if fault is not None:
        args = {"class": class_name(verdict), "summary": plain(verdict.summary)}
        events.append({**base, "name": f"fault: {class_name(verdict)}", "ts": clock.us(fault), "args": args})
    for number, finding in enumerate(verdict.findings, start=1):
        times = [time for reference in finding.evidence if (time := _moment(reference, job, tables)) is not None]
        at = max(times) if times else fault if fault is not None else end if end is not None else clock.start
        events.append(
            {
                **base,
                "s": "p",
                "name": f"finding {number}: {plain(finding.detector, 80)}",
                "ts": clock.us(at),
                "args": {
                    "statement": plain(finding.statement),
                    "evidence": [plain(reference, 200) for reference in finding.evidence],
                    "led_to_verdict": finding.led_to_verdict,
                    "time_from": "its evidence" if times else "the fault or the window: the finding has no time",
                },
            }
        )
    return events


def render(verdict: Verdict, job: Job) -> str:
    """The trace as JSON text; events sorted by time, names first. Times count from `otherData.start_unix_s`."""
    tables = operations(job)
    clock = _Clock(_start(verdict, job, tables))
    names: list[Event] = []
    events: list[Event] = []
    left_out = 0
    known = {rank.rank: rank for rank in job.ranks}
    roles = {suspect.rank: suspect for suspect in verdict.suspects if suspect.rank is not None}
    ranks = sorted({*known, *tables, *job.tracks})
    limit = max(1, MAX_SLICES // max(1, len(tables)))
    for rank in ranks:
        pid = rank + 1
        suspect = roles.get(rank)
        host = known[rank].host if rank in known else None
        name = f"rank {rank}" + (f" ({suspect.role.value})" if suspect is not None else "")
        where = place(suspect) if suspect is not None else (f"host {plain(host)}" if host is not None else "")
        names += _named(pid, f"{name} {where}".strip(), rank)
        if rank in tables:
            slices, left = _slices(job, tables[rank], clock, limit)
            events += slices
            left_out += left
        if rank in job.tracks:
            track = job.tracks[rank]
            events += _counter(pid, "GPU utilisation", "percent", Curve(track.time, track.sm_percent), clock)
            events += _counter(pid, "link rate", "KiB/s", link_rate(track), clock)
    for index, engine in enumerate(engine_curves(job)):
        pid = ENGINE_PID + index
        names += _named(pid, f"engine {plain(engine.label, 80)}", ENGINE_PID + index)
        events += _counter(pid, "tokens", "tokens", engine.tokens, clock)
        events += _counter(pid, "requests running", "requests", engine.running, clock)
        events += _counter(pid, "requests waiting", "requests", engine.waiting, clock)
    instants = _instants(verdict, job, tables, clock)
    if instants:
        names += _named(VERDICT_PID, "verdict", -1) + _named(VERDICT_PID, "fault and findings", 0, VERDICT_PID)
    names += [event for event in events if event["ph"] == "M"]
    timed = [event for event in events if event["ph"] != "M"] + instants
    # a slice that holds others must come before them: longer first where they start together
    timed.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0), event["pid"], event["tid"], event["name"]))
    trace = {
        "traceEvents": names + timed,
        "displayTimeUnit": "ms",
        "otherData": {
            "verdict": class_name(verdict),
            "instance": plain(verdict.instance or "unknown"),
            "start_unix_s": clock.start,
            "slices": "host-observed: from enqueued to found complete by the watchdog; not kernel time",
            "operations_left_out": left_out,
        },
    }
    return json.dumps(trace, allow_nan=False, separators=(",", ":")) + "\n"
