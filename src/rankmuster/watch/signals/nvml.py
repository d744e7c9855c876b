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
from rankmuster.watch.signals.gpu_answers import Answers
from rankmuster.watch.signals.gpu_child import FIRST_PAUSE, Child
from rankmuster.watch.signals.gpu_xid import Xids
from rankmuster.watch.signals.signal import Declined, Failed, Said

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
        self._xids = Xids("nvml-xid-events", host)
        self._answers = Answers(host, self._xids)
        self._well = 0.0
        self._why: Failed | Declined | None = None  # no child lives
        self._declined: str | None = None
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
        return self._answers.listed

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
        self._well = self._child.began
        self._answers = Answers(self._host, self._xids, self._child.began)
        return True

    def _read(self, lines: list[Mapping[str, Any]]) -> Iterator[Said]:
        now, unix = self._clock(), self._now()
        heard = self._answers.take(lines, now, unix)
        if self._answers.xid_gpus is not None:
            self.xid_gpus = self._answers.xid_gpus
        if self._answers.unusable is not None:
            self._unusable(*self._answers.unusable)
        if self._answers.failing_since is not None:
            # Not newer than what was heard: the plane as a whole is not silent.
            yield Failed(now, Plane.HARDWARE, self._answers.failing(others=len(heard)))
        yield from heard

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
        elif self._answers.count is None:
            waited = now - child.began
            reason = f"NVML was asked to start {waited:.0f} s ago and has not answered"
            blocks = f"{reason}; after a GPU fault (Xid 79, 119) the driver blocks, see the kernel log"
            yield self._give_up(blocks) if waited > START_SECONDS else self._failed(reason)
        elif now - self._answers.heard > self._silent_seconds:
            yield self._give_up(f"the process that asks NVML has said nothing for {now - self._answers.heard:.0f} s")
        elif self._answers.heard < asked:
            yield self._failed(f"the process that asks NVML did not answer within {now - asked:.1f} s")
        elif self._answers.count == 0:
            yield from self._rest(
                "the NVIDIA driver is loaded and shows no GPU to this process (NVIDIA_VISIBLE_DEVICES, device cgroup)"
            )
        elif (since := self._answers.failing_since) is not None:
            yield from self._of_failing(now, since)
        elif now - self._well > WELL_SECONDS:
            child.well()
        if child.lives and (which := self._answers.bare):
            yield from self._decline(
                f"NVML gives neither utilisation nor NVLink bytes of GPU {which} away (MIG, vGPU, another one's GPU)"
            )
        elif child.lives and self._answers.gave:
            self._declined = None

    def _of_failing(self, now: float, since: float) -> Iterator[Said]:
        """NVML is started anew where a GPU has failed for long, unless a former child is blocked: so would a new be."""
        self._well = now
        if now - since > max(self._failing_seconds, self._child.pause) and not self._child.blocked():
            self._child.give_up(rest=0.0, longer=2 * self._failing_seconds)
            self._why = self._failed(f"{self._answers.failing()}; NVML is started anew")
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

    def _unusable(self, reason: str, absent: bool) -> None:
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

    def _failed(self, reason: str) -> Failed:
        return Failed(self._clock(), Plane.HARDWARE, reason)
