"""What torch's communication watchdogs say: time-outs, how far each group got, dumps, aborts.

Forms from torch 1.13 (`[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught ... WorkNCCL(SeqNum=.., OpType=..)`) to
2.11 (captured), with gloo's own wait time-outs. One time-out is told two to four times (by the watchdog, by the
exception that ends it, by `what():`): it is reported once per rank, group and sequence number, with the group that any
of the tellings names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import Origins, holds
from rankmuster.evidence.log_prefix import Prefix, signed, whole
from rankmuster.evidence.torch_desync import DESYNC_MARK, read_desync
from rankmuster.model.frameworklog import (
    AbortNotice,
    DumpNotice,
    LineOrigin,
    WatchdogTimeout,
    WorkStatus,
)
from rankmuster.model.plane import Plane

WRAPPED_LINES = 3
"""Lines joined when a terminal or a pasted report has wrapped the time-out's line (about 240 characters)."""
STATUS_REACH = 60
"""Lines after a time-out in which `failure detected by watchdog` still belongs to it; a desync report of a large group
stands between the two."""

_MARKS = (
    "Watchdog caught",
    " work sequence id: ",
    "detected by watchdog at work: ",
    "Received a dump signal due to",
    "preparing to dump debug info",
    "Flight recorder dump in heartbeatMonitor timed out",
    "through pipe",
    "taking the entire process down",
    "failed or timed out. Due to the async",
    "watchdog thread terminated with exception",
    "terminate called after throwing",
    "watchdog got stuck for",
    "Heartbeat monitor timed out",
    "detected no heartbeat of its watchdog",
    "Terminating the process after attempting to dump",
    "ProcessGroup abort timed out",
    "Timed out waiting ",
    DESYNC_MARK,
)
_WORK = re.compile(r"Work([A-Z][A-Za-z0-9]{1,15})\(([^()]*(?:\(ms\)[^()]*)*)\)")
_FIELD = re.compile(r"([A-Za-z]+(?:\(ms\))?)=(-?\w+)")
_RAN = re.compile(r"ran for (\d+) milliseconds")
_DETECTED = re.compile(
    r"at work sequence id: (-?\d+) PG status: last enqueued work: (-?\d+), last completed work: (-?\d+)"
    r"|at work: (-?\d+), last enqueued NCCL work: (-?\d+), last completed NCCL work: (-?\d+)"
)
_SIGNAL = re.compile(
    r"Received a dump signal due to an? (?P<why>collective timeout|[^.,]{1,80}?) from +"
    r"(?:this local rank|rank (?P<rank>\d{1,9}))"
)
_LAST = re.compile(r"Last enqueued NCCL work: (-?\d+), last completed NCCL work: (-?\d+)", re.IGNORECASE)
_STACKS = re.compile(r"Include stack trace: ([01])")
_GLOO = re.compile(r"Timed out waiting (\d+)ms for (send|recv) operation to complete")
_ABORTS = (
    ("taking the entire process down", False),
    ("failed or timed out. Due to the async", False),
    ("watchdog thread terminated with exception", False),
    ("terminate called after throwing", False),
    ("ProcessGroup abort timed out", False),
    ("watchdog got stuck for", True),
    ("Heartbeat monitor timed out", True),
    ("detected no heartbeat of its watchdog", True),
    ("Terminating the process after attempting to dump", False),
)


@dataclass
class _State:
    observations: list[object] = field(default_factory=list)
    timeouts: dict[tuple[object, ...], int] = field(default_factory=dict)  # identity -> place in observations
    told: set[tuple[object, ...]] = field(default_factory=set)
    reason: dict[int | None, tuple[str, int | None]] = field(default_factory=dict)
    retry: set[int | None] = field(default_factory=set)
    known: int = 0


def _timeout(state: _State, origin: LineOrigin, prefix: Prefix, line: str) -> None:
    work = _WORK.search(line)
    fields = dict(_FIELD.findall(work.group(2))) if work else {}
    ran = _RAN.search(line)
    seq = signed(fields.get("SeqNum"))
    ran_ms = whole(ran.group(1)) if ran else None
    if work is None and ran is None:
        return
    writer = origin.rank if origin.rank is not None else ("in group", origin.group_rank)
    identity = (writer, seq, fields.get("OpType"), fields.get("NumelIn"), ran_ms)
    place = state.timeouts.get(identity)
    if place is None:
        place = _retold(state, origin, prefix, seq, ran_ms)
    if place is not None:
        earlier = state.observations[place]
        if isinstance(earlier, WatchdogTimeout) and earlier.group is None and prefix.group is not None:
            state.observations[place] = replace(earlier, group=prefix.group, group_desc=prefix.group_desc)
        return
    state.timeouts[identity] = len(state.observations)
    state.observations.append(
        WatchdogTimeout(
            origin,
            prefix.group,
            prefix.group_desc,
            seq,
            fields.get("OpType"),
            signed(fields.get("NumelIn")),
            signed(fields.get("NumelOut")),
            signed(fields.get("Timeout(ms)")),
            ran_ms,
            work.group(1).lower() if work else None,
        )
    )


def _retold(state: _State, origin: LineOrigin, prefix: Prefix, seq: int | None, ran_ms: int | None) -> int | None:
    """The time-out that a line without a rank of its own (`what(): ... [Rank 0] Watchdog caught ...`) tells again."""
    if prefix.level is not None:
        return None
    here = (origin.group_rank, seq, ran_ms)
    for place in state.timeouts.values():
        earlier = state.observations[place]
        if isinstance(earlier, WatchdogTimeout) and (earlier.origin.group_rank, earlier.seq, earlier.ran_ms) == here:
            return place
    return None


def _status(state: _State, origin: LineOrigin, prefix: Prefix, numbers: tuple[str | None, ...]) -> None:
    failed, enqueued, completed = (signed(n) for n in numbers)
    observation = WorkStatus(origin, prefix.group, prefix.group_desc, enqueued, completed, failed)
    for place in reversed(list(state.timeouts.values())):
        earlier = state.observations[place]
        if (
            isinstance(earlier, WatchdogTimeout)
            and earlier.group is None
            and (earlier.origin.rank, earlier.origin.group_rank) == (origin.rank, origin.group_rank)
            and (earlier.seq is None or earlier.seq == failed)
            and origin.line - earlier.origin.line <= STATUS_REACH
            and failed is not None
        ):
            state.observations[place] = replace(earlier, group=prefix.group, group_desc=prefix.group_desc, seq=failed)
            break
    state.observations.append(observation)


def _dump(state: _State, origin: LineOrigin, prefix: Prefix) -> None:
    stacks = _STACKS.search(prefix.message)
    reason, by = state.reason.pop(origin.rank, (None, None))
    state.observations.append(
        DumpNotice(
            origin,
            prefix.group,
            stacks.group(1) == "1" if stacks else None,
            reason,
            by,
            origin.rank in state.retry,
        )
    )
    state.retry.discard(origin.rank)
    if reason is not None:
        state.reason[origin.rank] = (reason, by)


def _abort(state: _State, origin: LineOrigin, line: str) -> None:
    for mark, heartbeat in _ABORTS:
        if mark not in line:
            continue
        stuck = heartbeat or "watchdog hang" in line
        if stuck:
            state.reason[origin.rank] = ("heartbeat", None)
        key = (origin.rank, origin.pid, mark)
        if key not in state.told:
            state.told.add(key)
            state.observations.append(AbortNotice(origin, line[:600], stuck))
        return


def _gloo(state: _State, origin: LineOrigin, m: re.Match[str]) -> None:
    key = (origin.rank, origin.pid, origin.worker, m.group(0))
    if key in state.told:
        return
    state.told.add(key)
    wait = whole(m.group(1))
    state.observations.append(
        WatchdogTimeout(origin, None, None, None, m.group(2).upper(), None, None, wait, wait, "gloo")
    )


def _line(state: _State, origin: LineOrigin, prefix: Prefix, message: str) -> None:
    detected = _DETECTED.search(message)
    signal = _SIGNAL.search(message)
    gloo = _GLOO.search(message)
    if "Watchdog caught" in message:
        inner = re.search(r"\[Rank (\d{1,9})\] Watchdog caught", message)
        if inner and origin.group_rank is None:
            origin = replace(origin, group_rank=whole(inner.group(1)))
        if origin.rank is None and prefix.group is None and "[PG " not in message:
            origin = replace(origin, rank=origin.group_rank)
        _timeout(state, origin, prefix, message)
    if detected:
        groups = detected.groups()
        _status(state, origin, prefix, groups[:3] if groups[0] is not None else groups[3:])
    elif signal:
        reason = "timeout" if "timeout" in signal["why"] else "exception"
        state.reason[origin.rank] = (reason, whole(signal["rank"]))
        last = _LAST.search(message)
        if last:
            _status(state, origin, prefix, (None, *last.groups()))
    elif "preparing to dump debug info" in message:
        _dump(state, origin, prefix)
    elif "through pipe" in message and "ump" in message:
        state.reason[origin.rank] = ("pipe", None)
    elif "Flight recorder dump in heartbeatMonitor timed out" in message:
        state.retry.add(origin.rank)
    elif gloo:
        _gloo(state, origin, gloo)
    if "what(): " not in message:  # the exception that `terminate called` has announced
        _abort(state, origin, message)


def read(blob: Blob) -> Reading:
    """WatchdogTimeout, WorkStatus, DumpNotice, DesyncReport and AbortNotice of a log, in its order."""
    present = [mark for mark in _MARKS if mark.encode() in blob.data]
    if not present:
        return Reading()
    state = _State()
    origins = Origins(blob)
    lines = list(text.lines(blob.data))
    for index, (number, line) in enumerate(lines):
        if not any(mark in line for mark in present):
            continue
        if DESYNC_MARK in line and "ranks" in line:
            report = read_desync(lines, index, origins)
            if report is not None:
                state.known += 1
                state.observations.append(report)
            continue
        if "Watchdog caught" in line and "milliseconds" not in line:
            line = " ".join([line, *(more.strip() for _, more in lines[index + 1 : index + WRAPPED_LINES])])
        origin, prefix = origins.of(number, line)
        before = len(state.observations)
        _line(state, origin, prefix, prefix.message)
        state.known += len(state.observations) > before or "Watchdog caught" in line
    return Reading(tuple(state.observations), (), state.known)


def _recognises(blob: Blob) -> bool:
    return holds(blob, _MARKS)


READER = Reader("torch watchdog log", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
