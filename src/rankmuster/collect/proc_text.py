"""What the text files of one process in /proc say. Pure: bytes in, values out; whatever they hold, nothing is raised.

Sources: proc(5), fs/proc/array.c.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD of include/linux/sched.h, in field 9 of `stat`."""

_HZ = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STATES = "RSDZTtXxKWPI"


@dataclass(frozen=True, slots=True)
class Stat:
    """Of `stat`: `state` one letter (Z: exited and not reaped), `start_ticks` since boot, `cpu_ticks`: user and
    system.

    `exit_status`: wait status of a zombie as waitpid gives it; 0 also where the kernel does not tell.
    """

    pid: int
    comm: str
    state: str
    parent: int
    flags: int
    threads: int
    start_ticks: int
    exit_status: int
    cpu_ticks: int = 0
    rss_pages: int = 0

    @property
    def kernel_thread(self) -> bool:
        """Whether it is a thread of the kernel's own."""
        return bool(self.flags & KERNEL_THREAD)

    @property
    def stopped(self) -> bool:
        """Frozen by a signal or a debugger: it runs nothing, not even a signal's handler."""
        return self.state in ("T", "t")

    @property
    def ended(self) -> bool:
        """Dead, whether or not somebody has collected its exit status."""
        return self.state in ("Z", "X", "x")

    @property
    def exit_code(self) -> int | None:
        """Of a zombie, negative for a signal; 0 is also what the kernel says to those who may not know, hence None."""
        if self.state != "Z" or self.exit_status == 0:
            return None
        try:
            return os.waitstatus_to_exitcode(self.exit_status)
        except ValueError:
            return None

    @property
    def cpu_seconds(self) -> float:
        """Processor time, user and system."""
        return self.cpu_ticks / _HZ

    @property
    def rss_bytes(self) -> int:
        """Memory that is resident."""
        return self.rss_pages * _PAGE


@dataclass(frozen=True, slots=True)
class Status:
    """Of `status`: real user, and the pid in each namespace, ours first and the process's own last."""

    uid: int
    pids: tuple[int, ...]


def parse_stat(data: bytes) -> Stat | None:
    """The fields; None for what is no `stat`. A command's name may hold anything, `)` and newlines too."""
    start, end = data.find(b"("), data.rfind(b")")
    fields = data[end + 1 :].split() if 0 < start < end else []
    if len(fields) < 20:
        return None
    try:
        numbers = [int(field) for field in fields[1:]]
        pid = int(data[:start])
    except ValueError:
        return None
    state = fields[0].decode("ascii", "replace")[:1]
    return Stat(
        pid=pid,
        comm=data[start + 1 : end].decode("utf-8", "replace"),
        state=state if state in _STATES else "?",
        parent=numbers[0],
        flags=numbers[5],
        threads=numbers[16],
        start_ticks=numbers[18],
        exit_status=numbers[48] if len(numbers) > 48 else 0,
        cpu_ticks=numbers[10] + numbers[11],
        rss_pages=numbers[20] if len(numbers) > 20 else 0,
    )


def parse_environ(data: bytes) -> dict[str, str]:
    """Variables with plausible names; the first of a name counts, as for getenv. A title written over it has none."""
    found: dict[str, str] = {}
    for entry in data.split(b"\0"):
        name, equals, value = entry.decode("utf-8", "replace").partition("=")
        if equals and _NAME.fullmatch(name):
            found.setdefault(name, value)
    return found


def parse_command(data: bytes) -> tuple[str, ...]:
    """Arguments; the NULs and blanks that a title leaves behind it are dropped."""
    parts = data.rstrip(b"\0 ").split(b"\0") if data.strip(b"\0 ") else []
    return tuple(part.decode("utf-8", "replace") for part in parts)


def parse_status(data: bytes) -> Status | None:
    """User and pids; None when either is missing. Kernels before 4.1 have no NSpid: then its own pid stands alone."""
    fields: dict[bytes, bytes] = {}
    for line in data.split(b"\n"):
        name, colon, rest = line.partition(b":")
        if colon:
            fields.setdefault(name, rest)
    try:
        uid = int(fields[b"Uid"].split()[0])
        pids = tuple(int(pid) for pid in fields.get(b"NSpid", fields.get(b"Pid", b"")).split())
    except (KeyError, IndexError, ValueError):
        return None
    return Status(uid, pids) if pids else None
