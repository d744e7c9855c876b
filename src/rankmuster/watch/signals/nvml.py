"""GPUs through NVML for as long as the watch lives: a sample of each at every poll, and Xids as they happen.

NVML is asked in a child (`collect.node.nvml_rounds`), since it can block for ever after a GPU fault. A child that
dies, says nothing, or whose GPUs go on failing is followed by a new one, with growing pauses, without end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.model.plane import Plane
from rankmuster.watch.signals.gpu_child import FIRST_PAUSE, Child
from rankmuster.watch.signals.gpu_rows import Rows
from rankmuster.watch.signals.gpu_xid import Xids
from rankmuster.watch.signals.signal import Declined, Failed, Heard, Said

ROUND_SECONDS = 4.0
"""Longest wait for a round within a poll: twice a second each where GPUs hang, and a start of NVML."""

START_SECONDS = 60.0
"""For NVML to start: without persistence mode eight GPUs are initialised first, some seconds each."""

SILENT_SECONDS = 20.0
"""Without a word of the child, which answers within two seconds whatever the driver does, before it is given up: it was
stopped, or starves."""

FAILING_SECONDS = 30.0
"""For which a GPU may hang or be reported lost before NVML is started anew: handles of before a reset never work again.
A call with Xid 119 takes up to 45 s, and several in a row are ordinary."""

WELL_SECONDS = 120.0
"""Of answers by every GPU after which the pause is the first one again."""

ABSENT_PAUSE = 60.0
"""Between two looks for a driver on a node that has none: an operator may install it later."""

MOST_XIDS = 32
"""Told at one poll: a failing GPU repeats itself."""


CLOSE_SECONDS = 1.0
"""For a poll to come back after its child was killed."""


class NvmlSignal:
    """Plane hardware: one piece of `GpuTrack` per GPU and poll, `pids` as NVML numbers them (`gpu_instance`).

    Asked in the moment of the poll: a look that follows at once sees the present, and a second sample between two looks
    would not show a stop any sooner, since a stop is judged at looks only.
    """

    def __init__(
        self,
        host: str,
        *,
        period: float = 5.0,
        xids: bool = True,
        clock: Clock = time.monotonic,
        now: Callable[[], float] = time.time,
        first_pause: float = FIRST_PAUSE,
        failing_seconds: float = FAILING_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        """`xids`: whether Xids are told, too (plane kernel); not where the kernel log is followed."""
        self._host = host
        self._period = period
        self._clock = clock
        self._now = now
        self._failing_seconds = failing_seconds
        self._silent_seconds = silent_seconds
        self._child = Child(xids=xids, clock=clock, first_pause=first_pause)
        self._rows = Rows(host)
        self._xids = Xids("nvml-xid-events", host)
        self._count: int | None = None  # None: NVML has not started
        self._heard = self._well = 0.0
        self._why: Failed | Declined | None = None  # no child lives
        self._declined: str | None = None
        self._failing: dict[int, tuple[float, str]] = {}
        self._gave: set[int] = set()  # GPUs that have given a sample to this child
        self._bare: set[int] = set()  # ... and those that answer without telling anything
        self._closed = False
        self._lock = threading.Lock()
        self.xid_gpus: tuple[int, ...] = ()  # GPUs whose Xids NVML tells

    @property
    def name(self) -> str:
        return "nvml"

    @property
    def plane(self) -> Plane:
        return Plane.HARDWARE

    @property
    def period(self) -> float:
        return self._period

    @property
    def blind_to(self) -> str:
        return (
            "which operation runs, and whether a kernel that spins waits or computes; a GPU reset or a driver reload "
            "needs the watch stopped first, which holds the driver open"
        )

    @property
    def listed(self) -> tuple[tuple[int, ...], ...]:
        """The processes of each GPU of the node, as NVML numbers them; for `gpu_instance.share_of`."""
        return self._rows.listed

    @property
    def child(self) -> int | None:
        """The pid of the process that asks NVML now."""
        return self._child.pid

    @property
    def starts(self) -> int:
        """Children so far."""
        return self._child.starts

    @property
    def child_cpu_seconds(self) -> float:
        """Processor time of all children so far, as they said it themselves at their last rounds."""
        return self._child.cpu_seconds

    def poll(self, deadline: Deadline) -> list[Said]:
        """Samples of all GPUs that answer; Failed, first, for those that do not."""
        with self._lock:
            said = [] if self._closed else list(self._poll(deadline))
            if self._closed:
                self._child.end()
            return said

    def close(self) -> None:
        """Ends the child; a poll that goes on comes back."""
        self._closed = True
        if not self._lock.acquire(blocking=False):
            self._child.kill()
            if not self._lock.acquire(timeout=CLOSE_SECONDS):
                return
        try:
            self._child.end()
        finally:
            self._lock.release()

    def _poll(self, deadline: Deadline) -> Iterator[Said]:
        if not self._child.lives and not self._start():
            if isinstance(self._why, Failed):
                yield self._failed(self._why.reason)
            return
        asked = self._clock()
        lines = self._child.round(deadline.within(ROUND_SECONDS))
        yield from self._read(lines)
        yield from self._judge(asked)

    def _start(self) -> bool:
        """Whether a child runs now; `_why` says why not."""
        if not self._child.due:
            return False
        problem = self._child.start()
        if problem is not None:
            self._why = self._failed(problem)
            return False
        self._rows = Rows(self._host)
        self._count = None
        self._failing = {}
        self._gave, self._bare = set(), set()
        self._heard = self._well = self._child.began
        return True

    def _read(self, lines: list[Mapping[str, Any]]) -> Iterator[Said]:
        now, unix = self._clock(), self._now()
        told = 0
        samples: list[Said] = []
        for line in lines:
            kind, gpu = line.get("kind"), line.get("gpu")
            self._heard = now
            if kind == "driver":
                self._count = _count(line)
            elif kind == "gpu":
                self._rows.opened(line)
                if "error" in line and isinstance(gpu, int):
                    self._fails(gpu, now, f"NVML says of it: {line['error']}")
            elif kind == "moving":
                track = self._rows.sample(line)
                if track is not None:
                    samples.append(Heard(now, unix, track, Plane.HARDWARE))
                if isinstance(gpu, int):
                    if "error" in line:
                        self._fails(gpu, now, f"NVML says of it: {line['error']}")
                    elif track is None and gpu not in self._gave:
                        self._bare.add(gpu)
                    elif track is None:
                        self._fails(gpu, now, "NVML does not tell its utilisation and NVLink bytes any more")
                    else:
                        self._gave.add(gpu)
                        self._failing.pop(gpu, None)
            elif kind == "slow" and isinstance(gpu, int):
                self._fails(gpu, now, f"it has not answered {line.get('call')} for {_seconds(line):.0f} s")
            elif kind == "xid" and told < MOST_XIDS:
                told += 1
                at, code = line.get("time"), line.get("code")
                when = float(at) if isinstance(at, (int, float)) else unix
                xid = (
                    self._xids.told(code, str(line.get("bus_id")), when, "told by NVML") if type(code) is int else None
                )
                if xid is not None:
                    samples.append(Heard(now, unix, xid, Plane.KERNEL))
            elif kind == "xids" and isinstance(line.get("gpus"), list):
                self.xid_gpus = tuple(index for index in line["gpus"] if isinstance(index, int))
            elif kind == "unusable":
                self._unusable(str(line.get("reason")), absent=bool(line.get("absent")))
        if self._failing:
            # Not newer than what was heard: the plane as a whole is not silent.
            yield Failed(now, Plane.HARDWARE, self._told(samples))
        yield from samples

    def _judge(self, asked: float) -> Iterator[Said]:
        """Whether the child may go on; gives it up otherwise. `asked`: when this poll's round was."""
        now, child = self._clock(), self._child
        if not child.lives:
            if isinstance(self._why, Declined):
                yield from self._decline(self._why.reason)
            elif self._why is not None:
                yield self._why
        elif child.ended:
            yield self._give_up("the process that asks NVML", ended=True)
        elif self._count is None:
            waited = now - child.began
            reason = f"NVML was asked to start {waited:.0f} s ago and has not answered"
            blocks = f"{reason}; after a GPU fault (Xid 79, 119) the driver blocks, see the kernel log"
            yield self._give_up(blocks) if waited > START_SECONDS else self._failed(reason)
        elif now - self._heard > self._silent_seconds:
            yield self._give_up(f"the process that asks NVML has said nothing for {now - self._heard:.0f} s")
        elif self._heard < asked:
            yield self._failed(f"the process that asks NVML did not answer within {now - asked:.1f} s")
        elif self._count == 0:
            yield from self._rest(
                "the NVIDIA driver is loaded and shows no GPU to this process (NVIDIA_VISIBLE_DEVICES, device cgroup)"
            )
        elif self._failing:
            yield from self._of_failing(now)
        elif now - self._well > WELL_SECONDS:
            child.well()
        if child.lives and self._bare:
            which = ", ".join(map(str, sorted(self._bare)[:8]))
            yield from self._decline(
                f"NVML gives neither utilisation nor NVLink bytes of GPU {which} away (MIG, vGPU, another one's GPU)"
            )
        elif child.lives and self._gave:
            self._declined = None

    def _of_failing(self, now: float) -> Iterator[Said]:
        """NVML is started anew where a GPU has failed for long, unless a former child is blocked: so would a new be."""
        self._well = now
        longest = now - min(since for since, _ in self._failing.values())
        if longest > max(self._failing_seconds, self._child.pause) and not self._child.blocked():
            self._child.give_up(rest=0.0, longer=2 * self._failing_seconds)
            self._why = self._failed(f"{self._told([])}; NVML is started anew")
            yield self._why

    def _rest(self, reason: str) -> Iterator[Said]:
        """There is nothing to ask here, until perhaps later."""
        self._child.give_up(rest=ABSENT_PAUSE)
        self._why = Declined(self._clock(), Plane.HARDWARE, reason)
        yield from self._decline(reason)

    def _decline(self, reason: str) -> Iterator[Said]:
        """Says it where it is another than was said last."""
        if reason != self._declined:
            self._declined = reason
            yield Declined(self._clock(), Plane.HARDWARE, reason)

    def _unusable(self, reason: str, *, absent: bool) -> None:
        if absent:
            self._child.give_up(rest=ABSENT_PAUSE)
            self._why = Declined(self._clock(), Plane.HARDWARE, f"no NVIDIA driver can be used here ({reason})")
        else:
            self._give_up(f"NVML cannot be used: {reason}")

    def _give_up(self, reason: str, *, ended: bool = False) -> Failed:
        """Ends the child; the next one comes after a pause."""
        pause = self._child.pause
        how = self._child.give_up()
        if ended:
            reason = f"{reason} {how or 'has ended'}"
        elif how is not None:
            reason = f"{reason}; its process {how}"
        self._why = self._failed(f"{reason} (tried again in {pause:.0f} s)")
        return self._why

    def _fails(self, gpu: int, now: float, why: str) -> None:
        since = self._failing[gpu][0] if gpu in self._failing else now
        self._failing[gpu] = since, why

    def _told(self, samples: list[Said]) -> str:
        told = "; ".join(f"GPU {gpu}: {why}" for gpu, (_, why) in sorted(self._failing.items())[:8])
        rest = f", {len(samples)} other GPU(s) answer" if samples else ""
        return f"{told}{rest}"

    def _failed(self, reason: str) -> Failed:
        return Failed(self._clock(), Plane.HARDWARE, reason)


def _count(line: Mapping[str, Any]) -> int:
    count = line.get("count")
    return count if isinstance(count, int) else 0


def _seconds(line: Mapping[str, Any]) -> float:
    value = line.get("seconds")
    return float(value) if isinstance(value, (int, float)) else 0.0
