"""The lean mode of the NVML child, for a watch of days: a round of all GPUs whenever the parent asks for one.

One thread asks all GPUs one after the other: on a healthy node that is the cheapest, and NVML serialises much of it
anyway. A GPU that does not answer in time keeps that thread for itself, the others of the round go on in threads of
their own, and it is left out of later rounds until it comes back. The main thread never enters NVML: it waits for the
parent's next word without waking up in between, so that the child ends with its parent whatever the driver does.

Input: `s` for a round. Lines on standard output, besides those of `nvml_child`: `{"kind": "moving", "gpu": 0, ...}`
(a sample), `{"kind": "xid", "bus_id": "...", "code": 79, "time": ...}`, `{"kind": "xids", "gpus": [...]}` (those whose
Xids are listened to), `{"kind": "slow", ...}` at each round for each GPU that has not answered, `{"kind": "round",
"cpu_seconds": 0.42}` at the end of one, `"begun": false` while NVML has not started.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from rankmuster.collect.node.nvml_reads import Gpu

TYPE_CHECKING = False  # not from `typing`, which is 0.6 MB of a process that lasts for days
if TYPE_CHECKING:
    from typing import Any

SLOW_SECONDS = 1.0
"""A sample that takes longer gets a thread of its own: ordinary ones take milliseconds, calls with Xid 119 6 to 45 s"""

RARELY = 6
"""Every how many samples of a GPU its processes and clock are read where nothing about it changes: listing costs as
much as the rest of a sample, and processes come and go with starts."""

AFTER_CHANGE = 3
"""Samples after a change (of spinning, idle, moving) with which processes are listed: a stop is judged by as many."""

QUIET_PERCENT, BUSY_PERCENT = 5, 95
"""SM utilisation that `diagnose` calls idle and spinning."""

EVENT_WAIT_MS = 60_000
"""Between two returns of the wait for an Xid: it returns at once when there is one."""

XID_EVENT = 0x8
"""nvmlEventTypeXidCriticalError."""
_TIMEOUT = 10
"""NVML_ERROR_TIMEOUT."""

EVENT_REST_SECONDS = 30.0
"""After an error of that wait (a lost GPU makes it fail at once, again and again)."""

Emit = Callable[..., None]


class Lean:
    """One GPU and what tells whether its sample differs in kind from the one before."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.since: float | None = None
        self._opened = False
        self._taken = 0
        self._list_until = AFTER_CHANGE
        self._kind: tuple[bool, bool, bool] | None = None
        self._bytes: tuple[object, object] | None = None

    def sample(self, emit: Emit) -> None:
        """Emits one; a GPU that could not be opened is tried again."""
        gpu = self.gpu
        if not self._opened:
            self._opened = gpu.open()
            emit(kind="gpu", gpu=gpu.index, uuid=gpu.uuid, bus_id=gpu.bus, **_error(gpu))
            if not self._opened:
                return
        whole = self._taken < self._list_until or self._taken % RARELY == 0
        row = gpu.moving(whole=whole)
        if self._changed(row):
            self._list_until = self._taken + AFTER_CHANGE
            if not whole:
                row |= gpu.rare()
        self._taken += 1
        emit(kind="moving", gpu=gpu.index, **row)

    def _changed(self, row: dict[str, Any]) -> bool:
        sm = row.get("sm_util_percent")
        sent = row.get("nvlink_tx_kib"), row.get("nvlink_rx_kib")
        kind = sent != self._bytes, sm is not None and sm >= BUSY_PERCENT, sm is not None and sm <= QUIET_PERCENT
        before, self._kind, self._bytes = self._kind, kind, sent
        return before is not None and before != kind


class _Job:
    """GPUs for one thread to sample in turn, until it is told that its round went on without it."""

    def __init__(self, gpus: Sequence[Lean]) -> None:
        self._left = list(gpus)
        self._lock = threading.Lock()
        self.done = threading.Event()

    def run(self, emit: Emit) -> None:
        while True:
            with self._lock:
                lean = self._left.pop(0) if self._left else None
                if lean is None:
                    break
                lean.since = time.monotonic()
            try:
                lean.sample(emit)
            except Exception as error:  # told, and the other GPUs go on: nobody else would hear of it
                emit(kind="gpu", gpu=lean.gpu.index, error=f"{type(error).__name__}: {error}")
            lean.since = None
        self.done.set()

    def split(self) -> list[Lean]:
        """Takes away what it has not begun."""
        with self._lock:
            left, self._left = self._left, []
        return left


class Rounds:
    """Asks the GPUs for one sample each; whoever still hangs from before is left out."""

    def __init__(self, gpus: Sequence[Lean], emit: Emit, slow_seconds: float = SLOW_SECONDS) -> None:
        self._gpus = gpus
        self._emit = emit
        self._slow = slow_seconds
        self._jobs: queue.SimpleQueue[_Job] | None = None

    def take(self) -> None:
        """One round; returns after twice `slow_seconds` at the latest."""
        job = _Job([lean for lean in self._gpus if lean.since is None])
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(self._jobs,), daemon=True).start()
        self._jobs.put(job)
        if not job.done.wait(self._slow):
            self._jobs = None  # its thread is that GPU's now, and ends when it comes back
            self._alone(job.split())
        for lean in self._gpus:
            since, asked = lean.since, lean.gpu.now_in
            if since is not None:
                call = f"nvml{asked[0]}" if asked is not None else "anything"
                self._emit(kind="slow", gpu=lean.gpu.index, call=call, seconds=round(time.monotonic() - since, 1))

    def _alone(self, gpus: Sequence[Lean]) -> None:
        """The rest of a round in which one hangs: any of them may hang, too."""
        jobs = [_Job([lean]) for lean in gpus]
        for job in jobs:
            threading.Thread(target=job.run, args=(self._emit,), daemon=True).start()
        until = time.monotonic() + self._slow
        for job in jobs:
            job.done.wait(max(until - time.monotonic(), 0.0))

    def _work(self, jobs: queue.SimpleQueue[_Job]) -> None:
        while self._jobs is jobs:
            jobs.get().run(self._emit)


def serve(begin: Callable[[], tuple[Any, list[Gpu]] | None], emit: Emit, *, xids: bool) -> None:
    """Answers the parent's words until it is gone. `begin`: starts NVML, None where it cannot be used (it says why)."""
    started: list[Rounds | None] = []

    def start() -> None:
        try:
            begun = begin()
        except Exception as error:  # said to the parent, which has no other way to learn of it
            emit(kind="unusable", reason=f"{type(error).__name__}: {error}", absent=False)
            begun = None
        if begun is None:
            started.append(None)
            return
        nvml, gpus = begun
        started.append(Rounds([Lean(gpu) for gpu in gpus], emit))
        if xids:
            _listen(nvml, gpus, emit)

    threading.Thread(target=start, daemon=True).start()
    for _ in _words():
        if started and started[0] is None:
            return
        if started and started[0] is not None:
            started[0].take()
        emit(kind="round", begun=bool(started), cpu_seconds=round(time.process_time(), 4))


def _words() -> Iterator[bytes]:
    """What the parent says, several words that waited as one; ends when it is gone."""
    while True:
        try:
            data = os.read(0, 4096)
        except OSError:
            return
        if not data:
            return
        yield data


def _listen(nvml: Any, gpus: Sequence[Gpu], emit: Emit) -> None:
    """Waits for Xids for ever. Only those after registering are told, and not all (79, 119, 120: driver-dependent)."""
    names = ("nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2", "nvmlDeviceGetPciInfo")
    if any(not hasattr(nvml, name) for name in names):
        return
    heard = []
    try:
        events = nvml.nvmlEventSetCreate()
        for gpu in gpus:
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(gpu.index)
                nvml.nvmlDeviceRegisterEvents(handle, XID_EVENT, events)
            except nvml.NVMLError:
                continue
            heard.append(gpu.index)
    except nvml.NVMLError:
        return
    emit(kind="xids", gpus=heard)
    while heard:
        try:
            event = nvml.nvmlEventSetWait_v2(events, EVENT_WAIT_MS)
        except nvml.NVMLError as error:
            if getattr(error, "value", None) != _TIMEOUT:
                time.sleep(EVENT_REST_SECONDS)
            continue
        if not event.eventType & XID_EVENT:
            continue
        said = time.time()
        try:
            bus = nvml.nvmlDeviceGetPciInfo(event.device).busId
        except nvml.NVMLError:
            continue
        bus = bus.decode(errors="replace") if isinstance(bus, bytes) else str(bus)
        emit(kind="xid", bus_id=bus, code=int(event.eventData), time=round(said, 3))


def _error(gpu: Gpu) -> dict[str, str]:
    return {"error": gpu.error} if gpu.error else {}
