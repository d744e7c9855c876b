"""The kernel log, and the journals of the services that GPUs need."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node import kmsg
from rankmuster.collect.node.children import find_program, run
from rankmuster.collect.node.kmsg import KernelLines
from rankmuster.collect.node.sys_files import read_text
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink

LOG = "kernel/dmesg.txt"
SERVICES = "kernel/services.log"
FABRIC = "kernel/fabricmanager.log"

DEFAULT_COMMANDS = (
    ("dmesg", "--time-format=iso"),
    ("journalctl", "-k", "-b", "--no-pager", "--quiet", "--output=short-iso-precise", "--lines=20000"),
)
"""Asked in turn where /dev/kmsg gives nothing."""

DEFAULT_JOURNAL = (
    "journalctl",
    *("--unit=nvidia-fabricmanager", "--unit=nvidia-persistenced", "--unit=nvidia-imex"),
    *("-b", "--no-pager", "--quiet", "--output=short-iso-precise", "--lines=2000"),
)

CALL_SECONDS = 5.0
"""Of one source: the ring comes in milliseconds, a journal on a slow disk in seconds."""
FABRIC_BYTES = 1 << 20
"""Of the services' logs, the last: a start of the Fabric Manager writes some ten KiB."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Plane kernel. The log is the host's, from a container too, where it may be read at all.

    `commands`: asked in turn where /dev/kmsg gives nothing. `journal`: of the services; `fabric_log`: below the host's
    root, which is where `Machine.etc` stands.
    """

    name: str = "kernel"
    budget_seconds: float = 12.0
    commands: tuple[tuple[str, ...], ...] = DEFAULT_COMMANDS
    journal: tuple[str, ...] = DEFAULT_JOURNAL
    fabric_log: str = "var/log/fabricmanager.log"

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """The ring buffer first, then the services."""
        outcome = self._log(scene, sink, deadline)
        services = self._services(scene, sink, deadline)
        if not services:
            return outcome
        ending = Ending.PARTIAL if outcome.ending in (Ending.NOTHING, Ending.DENIED, Ending.FAILED) else outcome.ending
        return Outcome(ending, f"{outcome.note}; {', '.join(services)}", outcome.warnings)

    def _log(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        host = scene.target.host if scene.target is not None else scene.machine.hostname
        path = scene.machine.dev / "kmsg"
        found = kmsg.read(path, deadline.within(CALL_SECONDS), scene.wishes.max_log_bytes)
        if found.lines:
            data = kmsg.as_text(found, host, _boot_time(scene))
            sink.put(LOG, data, look_time=scene.now(), host=host, text=True)
            return _of_ring(found, path)
        denied = found.problem in (errno.EACCES, errno.EPERM)
        stories = [f"{path}: {os.strerror(found.problem)}"] if found.problem not in (None, errno.ENOENT) else []
        for command in self.commands:
            program = find_program(command[0])
            if program is None:
                continue
            ran = run((program, *command[1:]), deadline.within(CALL_SECONDS), max_bytes=4 * scene.wishes.max_log_bytes)
            if ran.output.strip() and (ran.well or ran.cut or ran.timed_out):
                data = kmsg.public(ran.output)[-scene.wishes.max_log_bytes :]
                sink.put(LOG, data, look_time=scene.now(), host=host, text=True)
                note = f"{len(data)} bytes from {command[0]}"
                return Outcome(Ending.DONE if ran.well else Ending.PARTIAL, note, tuple(stories))
            said = ran.errors.lower()
            denied = denied or "not permitted" in said or "permission" in said
            stories.append(f"{command[0]} {ran.story}" if not ran.well else f"{command[0]} showed nothing")
        if denied:
            return Outcome(Ending.DENIED, f"the kernel log may not be read here ({'; '.join(stories)}): {kmsg.REMEDY}")
        if stories:
            return Outcome(Ending.FAILED, f"the kernel log gave nothing ({'; '.join(stories)})")
        return Outcome(Ending.NOTHING, f"no kernel log here: {path} is not there, and neither are dmesg or journalctl")

    def _services(self, scene: Scene, sink: Sink, deadline: Deadline) -> list[str]:
        """What was kept of the services, in words; that there is none of it is usual and not said."""
        host = scene.target.host if scene.target is not None else scene.machine.hostname
        kept = []
        log = scene.machine.etc.parent / self.fabric_log
        data = _tail(log, FABRIC_BYTES)
        if data.strip():
            sink.put(FABRIC, data, look_time=scene.now(), host=host, text=True)
            kept.append("the fabric manager's log")
        program = find_program(self.journal[0]) if self.journal else None
        if program is not None:
            ran = run((program, *self.journal[1:]), deadline.within(CALL_SECONDS), max_bytes=FABRIC_BYTES)
            lines = [
                line for line in ran.output.splitlines(keepends=True) if line.strip() and not line.startswith(b"--")
            ]
            if lines:
                sink.put(SERVICES, b"".join(lines), look_time=scene.now(), host=host, text=True)
                kept.append(f"{len(lines)} lines of the NVIDIA services' journal")
        return kept


def _of_ring(found: KernelLines, path: Path) -> Outcome:
    note = f"{len(found.lines)} lines from {path}"
    if found.cut:
        note += ", the oldest left out"
    if found.lost:
        note += ", with a gap where the kernel wrote faster than it was read"
    if found.problem is not None:
        return Outcome(Ending.PARTIAL, f"{note}; the reading ended early: {os.strerror(found.problem)}")
    return Outcome(Ending.DONE, note)


def _boot_time(scene: Scene) -> float:
    """Unix seconds at uptime 0. The ring's stamps run with CLOCK_MONOTONIC, which stands still in a suspend."""
    said = read_text(scene.machine.proc / "uptime")
    uptime = time.clock_gettime(time.CLOCK_MONOTONIC)
    if said is not None and scene.machine.proc != Path("/proc"):
        with contextlib.suppress(ValueError, IndexError):
            uptime = float(said.split()[0])
    return scene.now() - uptime


def _tail(path: Path, most: int) -> bytes:
    """The last bytes of a regular file, from a line's beginning; nothing where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return b""
    try:
        size = os.fstat(fd).st_size
        start = max(size - most, 0)
        data = os.pread(fd, most, start)
    except OSError:
        return b""
    finally:
        os.close(fd)
    return data if start == 0 else data.partition(b"\n")[2]
