"""The kernel log, followed: Xid and SXid, out-of-memory kills, links that go down. Of the node, not of one instance."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rankmuster.collect.bounded import Late, within
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.machine import Machine
from rankmuster.collect.node import kmsg
from rankmuster.model.frameworklog import LogSpan
from rankmuster.model.plane import Plane
from rankmuster.watch.signals.follow import Follower, News
from rankmuster.watch.signals.kernel_ring import Ring
from rankmuster.watch.signals.log_text import LogText
from rankmuster.watch.signals.signal import Declined, Failed, Heard, Said
from rankmuster.watch.signals.turn import Turn

FILES = ("/var/log/kern.log", "/var/log/syslog", "/var/log/messages")
"""Where a syslog daemon writes the kernel's lines (Debian, Ubuntu; Red Hat), in the order in which they are tried."""
AGAIN_SECONDS = 300.0
"""Between two tries where nothing could be read: rights change by a restart of this program mostly."""
PATIENCE = 1.0
"""Seconds for a look at a file."""
BLIND_TO = (
    "hangs of software; what was logged before the watch began; Xids of a driver that logs to another node's kernel (a "
    "virtual machine's host)"
)


class KernelSignal:
    """`files`: tried below the root in which `machine.etc` lies, where `/dev/kmsg` cannot be read.

    `clock`: monotonic seconds (the clock that the kernel's stamps run with), `wall`: unix seconds.
    """

    name = "kernel"
    plane = Plane.KERNEL
    blind_to = BLIND_TO

    def __init__(
        self,
        *,
        machine: Machine | None = None,
        files: Sequence[str] = FILES,
        period: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.period = period
        self._machine = machine if machine is not None else Machine()
        self._files = tuple(files)
        self._clock = clock
        self._wall = wall
        self._ring: Ring | None = None
        self._file: Follower | None = None
        self._text = LogText("kernel/dmesg.txt", (Plane.KERNEL,))
        self._due = float("-inf")
        self._last = clock()  # of the last look: what is new was written since
        self._declined: str | None = None
        self._late = 0
        self._turn = Turn(self._shut)

    def poll(self, deadline: Deadline) -> list[Said]:
        """What the kernel has said since."""
        with self._turn as still_open:
            if not still_open:
                return []
            said: list[Said] = []
            if self._ring is None and self._file is None and self._clock() >= self._due:
                self._open(said)
            if self._ring is not None:
                self._of_ring(self._ring, deadline, said)
            elif self._file is not None:
                self._of_file(self._file, deadline, said)
            return said

    def close(self) -> None:
        """Closes what is open; where a poll runs, at its end."""
        self._turn.close()

    def _shut(self) -> None:
        for one in (self._ring, self._file):
            if one is not None:
                one.close()
        self._ring = self._file = None

    def _open(self, said: list[Said]) -> None:
        path = self._machine.dev / "kmsg"
        stories = []
        self._last = self._clock()
        try:
            self._ring = Ring(path)
            self._declined = None
            return
        except OSError as error:
            stories.append(f"{path}: {os.strerror(error.errno or errno.EIO)}")
        root = self._machine.etc.parent
        for name in self._files:
            follower = Follower(Source(root, name, Path(name).name))
            try:
                news: News = within(PATIENCE, follower.poll, "kernel-log")
            except Late:
                follower.abandon()
                stories.append(f"{name} does not answer")
                continue
            if news.present and news.trouble is None:
                self._file = follower
                self._declined = None
                return
            follower.close()
            if news.trouble is not None:
                stories.append(news.trouble)
        self._due = self._clock() + AGAIN_SECONDS
        reason = f"the kernel log cannot be followed here ({'; '.join(stories)}): {kmsg.REMEDY}; NVML tells Xids"
        if reason != self._declined:
            self._declined = reason
            said.append(Declined(self._clock(), self.plane, reason))

    def _of_ring(self, ring: Ring, deadline: Deadline, said: list[Said]) -> None:
        since, records = self._last, ring.read(deadline)
        now, unix = self._clock(), self._wall()
        self._last = now
        boot = unix - now
        host = self._machine.hostname
        data = kmsg.as_text(kmsg.KernelLines(records.lines), host, boot) if records.lines else b""
        for read, plane, observation in self._text.take(data, now):
            at = _written(observation, boot, read - (now - since), read)
            said.append(Heard(at, unix - (now - at), observation, plane))
        if records.problem is not None:
            ring.close()
            self._ring = None
            said.append(Failed(now, self.plane, f"reading the kernel log ended: {os.strerror(records.problem)}"))
            return
        self._answered(now, unix, len(records.lines), said)
        if records.lost is not None:
            said.append(Failed(now, self.plane, records.lost))

    def _of_file(self, follower: Follower, deadline: Deadline, said: list[Said]) -> None:
        try:
            news = within(min(PATIENCE, deadline.remaining()), follower.poll, "kernel-log")
        except Late:
            follower.abandon()
            self._file = None
            self._late += 1
            self._due = self._clock() + AGAIN_SECONDS * 4**self._late  # each leaves a thread behind
            said.append(Failed(self._clock(), self.plane, f"{follower.source.path} does not answer"))
            return
        now, unix = self._clock(), self._wall()
        for at, plane, observation in self._text.take(kmsg.public(news.data), now):
            said.append(Heard(at, unix - (now - at), observation, plane))
        if news.trouble is not None or not news.present:
            why = news.trouble or f"{follower.source.path} is gone"
            said.append(Failed(now, self.plane, f"the kernel log cannot be followed: {why}"))
            return
        self._answered(now, unix, news.data.count(b"\n"), said)
        if news.skipped:
            why = f"{news.skipped:,} bytes of {follower.source.path} were passed over: more than one look reads"
            said.append(Failed(now, self.plane, why))

    def _answered(self, now: float, unix: float, lines: int, said: list[Said]) -> None:
        """A kernel that says nothing for days is heard all the same."""
        said.append(Heard(now, unix, LogSpan("kernel/dmesg.txt", None, lines, None, None, None), self.plane))


def _written(observation: Any, boot: float, since: float, read: float) -> float:
    """Monotonic seconds of the line's own stamp, as far as it can be right: its clock drifts by seconds in weeks."""
    stamp = getattr(getattr(observation, "origin", None), "stamp", None)
    at = stamp.unix_seconds if stamp is not None else None
    return read if at is None else min(max(at - boot, since), read)
