"""The Flight Recorder's variables of a profile: ring, dump, pipe, timing, heartbeat."""

from __future__ import annotations

import math

from rankmuster.environment import costs
from rankmuster.environment.draft import Draft, ProfileName, Request
from rankmuster.environment.table import TABLE
from rankmuster.environment.values import read_number
from rankmuster.environment.version import Version, at_least, written
from rankmuster.model.fault import CLASS_OF, FaultClass, Subkind

BUFFERS = {ProfileName.STEADY: 2000, ProfileName.PREPROD: 5000, ProfileName.INCIDENT: 10_000}
"""Entries. 2000 is torch's own default since 2.11; 10,000 with stacks still fit into half of one dump attempt of 15 s
(7.5 s). `rankmuster calibrate` says what the instance's own load needs."""
LEAST_WAIT_MS = 15_000
"""torch's own since 2.8; it lowered 60 s because two attempts of it kept dead jobs for minutes."""
INCIDENT_HEARTBEAT_S = 900
"""So that a stuck process is still there when somebody, or `rankmuster collect`, comes to look."""
DESYNC_HELPS = (None, FaultClass.COLLECTIVE_DESYNC, FaultClass.INCONCLUSIVE, FaultClass.BLIND)
"""Classes (or none named) for which a second opinion on who lags is worth its cost."""
MOST_ENTRIES = 1_000_000
"""A ring beyond this makes dumps of 250 MB a rank that take minutes."""


def add_recorder(draft: Draft) -> None:
    """The six and the heartbeat, then the files."""
    request = draft.request
    entries = _entries(draft)
    stacks = _wants_stacks(request)
    wait_ms = wait_for(entries, stacks=stacks)
    _ring(draft, entries, stacks=stacks)
    draft.set(
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
        1,
        "all ranks write their ring when one of them times out" + _default_note("TORCH_NCCL_DUMP_ON_TIMEOUT", request),
        "nothing until then",
    )
    _timing(draft)
    draft.set(
        "TORCH_NCCL_ENABLE_MONITORING",
        1,
        "the monitor thread writes the dump, polls the pipe and ends a process whose watchdog is stuck",
        "one sleeping thread per group",
    )
    _cpp_stacks(draft)
    _stacks(draft, entries, stacks=stacks)
    draft.set(
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
        wait_ms,
        f"one attempt at a dump of {entries} entries takes about "
        f"{costs.seconds_text(costs.dump_seconds(entries, stacks=stacks))}; there are two, then the process goes on",
        f"a process that cannot dump ends up to {costs.WATCHDOG_WAITS * wait_ms // 1000} s later",
    )
    draft.set("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", *_heartbeat(request, wait_ms))
    _files(draft)
    _nccl2(draft)


def wait_for(entries: int, *, stacks: bool) -> int:
    """Milliseconds for one attempt: the dump may take half of it, never less than torch's own."""
    seconds = costs.dump_seconds(entries, stacks=stacks) / costs.DUMP_SHARE
    return max(LEAST_WAIT_MS, math.ceil(seconds) * 1000)


def _entries(draft: Draft) -> int:
    request = draft.request
    if request.buffer is not None:
        return request.buffer
    if request.window is None:
        return BUFFERS[request.profile]
    wanted = math.ceil(request.window * costs.ENTRIES_PER_SECOND / 1000) * 1000
    entries = max(2000, min(wanted, MOST_ENTRIES))
    draft.warnings.append(
        f"{request.window:g} s at {costs.ENTRIES_PER_SECOND} entries a second (the busiest rank ever captured) are "
        f"{wanted} entries{' - cut to ' + str(entries) if entries < wanted else ''}; "
        "`rankmuster calibrate` computes it from the instance's own load"
    )
    return entries


def _wants_stacks(request: Request) -> bool:
    return request.profile is not ProfileName.STEADY or not TABLE["TORCH_INCLUDE_STACK_TRACE"].read_by(request.torch)


def _ring(draft: Draft, entries: int, *, stacks: bool) -> None:
    torch = draft.request.torch
    size = costs.size_text(costs.dump_bytes(entries, stacks=stacks))
    cost = f"a dump of about {size} per rank; {costs.RECORDING}"
    if at_least(torch, (2, 8)):
        draft.set("TORCH_FR_BUFFER_SIZE", entries, "the ring: entries per rank over all groups", cost)
        draft.set(
            "TORCH_NCCL_TRACE_BUFFER_SIZE",
            entries,
            "the same again: ProcessGroupNCCL and the pipe have copies that read only this name",
            "one deprecation warning in the log",
        )
    else:
        draft.set("TORCH_NCCL_TRACE_BUFFER_SIZE", entries, "the ring: entries per rank over all groups", cost)


def _timing(draft: Draft) -> None:
    request = draft.request
    more = request.profile is not ProfileName.STEADY
    draft.set(
        "TORCH_NCCL_ENABLE_TIMING",
        int(more),
        "start events: `started` tells who waits inside a collective from whose stream is busy before it"
        if more
        else "off: without it a stop is still found, only not whether the GPU had begun",
        "one CUDA event more per collective; torch warns that a watchdog gets stuck more easily" if more else "",
    )
    desync = request.profile is ProfileName.PREPROD or (
        request.profile is ProfileName.INCIDENT and _class(request) in DESYNC_HELPS
    )
    draft.set(
        "TORCH_NCCL_DESYNC_DEBUG",
        int(desync),
        "torch's own report at a time-out: a lead, often wrong; it forces timing"
        if desync
        else "off: it forces timing, writes to the store at every collective, and its report is often wrong",
        "two writes to the store per collective, by every rank: heavy with many" if desync else "",
    )


def _class(request: Request) -> FaultClass | None:
    suspect = request.suspect
    return CLASS_OF[suspect] if isinstance(suspect, Subkind) else suspect


def _cpp_stacks(draft: Draft) -> None:
    draft.set_newest(
        "TORCH_FR_CPP_STACK",
        "TORCH_NCCL_TRACE_CPP_STACK",
        0,
        "off: C++ frames are slow to symbolise and a dump may not be ready in time; 1 only where a Python stack ends "
        "in a library",
    )


def _stacks(draft: Draft, entries: int, *, stacks: bool) -> None:
    if not TABLE["TORCH_INCLUDE_STACK_TRACE"].read_by(draft.request.torch):
        draft.set("TORCH_INCLUDE_STACK_TRACE", 0, "")
        draft.warnings.append(
            "this torch writes stacks into every dump: a dump while work goes on stops it for seconds"
        )
        return
    slow = costs.seconds_text(costs.dump_seconds(entries, stacks=True))
    fast = costs.seconds_text(costs.dump_seconds(entries, stacks=False))
    if stacks:
        draft.set(
            "TORCH_INCLUDE_STACK_TRACE",
            1,
            "which line of Python issued each collective",
            f"a dump takes {slow} instead of {fast}, and holds the interpreter lock",
        )
    else:
        draft.set(
            "TORCH_INCLUDE_STACK_TRACE",
            0,
            f"off: a dump takes {fast} instead of {slow}, needs no interpreter lock, and does not stop a live instance",
        )


def _heartbeat(request: Request, wait_ms: int) -> tuple[int, str, str]:
    default = read_number(TABLE["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"].default(request.torch)) or 480
    needed = math.ceil(costs.WATCHDOG_WAITS * wait_ms / 1000) + LEAST_WAIT_MS // 1000
    wanted = INCIDENT_HEARTBEAT_S if request.profile is ProfileName.INCIDENT else default
    reason = (
        f"longer than the watchdog's own wait for a dump ({costs.WATCHDOG_WAITS} x {wait_ms // 1000} s), else the dump "
        "is cut off"
    )
    kept = "a dead process holds its GPU so much longer" if request.profile is ProfileName.INCIDENT else ""
    return max(wanted, needed), reason, kept


def _files(draft: Draft) -> None:
    request = draft.request
    place = request.place
    draft.set_newest(
        "TORCH_FR_DUMP_TEMP_FILE",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        place.dump_prefix,
        "torch appends the global rank and overwrites what is there; so instance and incarnation are in the path",
    )
    draft.set(
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
        place.pipe_prefix,
        "one byte into PREFIX<rank>.pipe makes that rank dump while work goes on; `rankmuster collect` uses it",
        "the folder must exist before the start: torch ends a process whose pipe it cannot make",
    )
    if request.profile is ProfileName.INCIDENT and at_least(request.torch, (2, 10)):
        draft.set("TORCH_NCCL_EXTRA_DUMP_ON_EXEC", 1, "one more dump, without stacks, when a group is aborted or fails")


def _nccl2(draft: Draft) -> None:
    torch = draft.request.torch
    if not TABLE["TORCH_DIST_USE_NCCL2"].read_by(torch):
        return
    on = TABLE["TORCH_DIST_USE_NCCL2"].default(torch) == "1"
    if draft.request.profile is ProfileName.INCIDENT and on:
        draft.set(
            "TORCH_DIST_USE_NCCL2",
            0,
            "the older backend: with the newer one a rank that merely waits leaves no dump, and nothing has events",
            "another backend than before: a fault may show differently",
        )
    elif on:
        draft.warnings.append(
            f"torch {written(torch)} uses the nccl2 backend: no coordinated dump (only ranks that fail themselves "
            "write one), no start or end events, so timing and desync debug do nothing; TORCH_DIST_USE_NCCL2=0 goes "
            "back"
        )


def _default_note(name: str, request: Request) -> str:
    version: Version = request.torch
    return f" (torch {written(version)} has it {'on' if TABLE[name].default(version) == '1' else 'off'} by default)"
