"""Reads /proc, below any root, a bounded piece at a time, and never fails over a process that has gone.

What takes the lock of a process's memory map (`cmdline`, `environ`, `maps`) may wait for as long as the process holds
it, which one that is stuck in a driver can do for ever: callers read those through `bounded.each`. `stat`, `status`,
links and `cgroup` take no such lock.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MAX_TEXT = 1 << 20
"""Bytes of `environ` and `cmdline`: Linux allows 6 MiB for both together, real ones take some KiB."""
MAX_MAPS = 64 << 20
"""Bytes of `maps`: a process may have 65,530 areas of some 150 bytes (vm.max_map_count)."""
KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD of include/linux/sched.h, in field 9 of `stat`."""
INITIAL_PID_NAMESPACE = 4026531836
"""PROC_PID_INIT_INO of include/linux/proc_ns.h: the inode of the machine's own pid namespace."""

_GONE = {errno.ENOENT, errno.ESRCH, errno.ENOTDIR, errno.EINVAL, errno.EIO, errno.ELOOP, errno.EISDIR, errno.ENXIO}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HZ = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATES = "RSDZTtXxKWPI"


class NotAllowed(Exception):
    """The kernel refused: another user's process, or a container without the right to look at its neighbours."""


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


@dataclass(frozen=True, slots=True)
class Proc:
    """One /proc. Every method gives None for a process that has gone, and raises NotAllowed where it is refused."""

    root: Path

    def pids(self) -> list[int]:
        """All processes that are listed; empty when the folder cannot be read."""
        try:
            return sorted(int(name) for name in os.listdir(self.root) if name.isascii() and name.isdigit())
        except OSError:
            return []

    def read(self, pid: int | str, name: str, limit: int = MAX_TEXT) -> bytes | None:
        """At most `limit` bytes of a file of the process."""
        return self._whole(f"{self.root}/{pid}/{name}", limit)

    def stat(self, pid: int, thread: int | None = None) -> Stat | None:
        """Who it is and how it goes; of one of its threads where that is named."""
        place = f"{pid}" if thread is None else f"{pid}/task/{thread}"
        data = self._whole(f"{self.root}/{place}/stat", 4096)
        return parse_stat(data) if data else None

    def status(self, pid: int) -> Status | None:
        """Its user and its pids in every namespace."""
        data = self._whole(f"{self.root}/{pid}/status", 16384)
        return parse_status(data) if data else None

    def command(self, pid: int) -> tuple[str, ...] | None:
        """Its arguments, or the title it has given itself; empty for zombies and kernel threads."""
        data = self._whole(f"{self.root}/{pid}/cmdline", MAX_TEXT)
        return None if data is None else parse_command(data)

    def environ(self, pid: int) -> Mapping[str, str] | None:
        """Its variables as they were when it started; empty where a title was written over them."""
        data = self._whole(f"{self.root}/{pid}/environ", MAX_TEXT)
        return None if data is None else parse_environ(data)

    def link(self, pid: int | str, name: str) -> str | None:
        """Where `cwd`, `exe`, `root`, `fd/1` or `ns/mnt` points."""
        try:
            return os.readlink(f"{self.root}/{pid}/{name}")
        except OSError as error:
            _refusal(error)
            return None

    def mapped_files(self, pid: int) -> Iterator[str]:
        """Paths of the files that it has mapped, each at most once in a row."""
        rest, last = b"", b""
        try:
            for piece in _pieces(f"{self.root}/{pid}/maps", MAX_MAPS):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    at = line.find(b"/")
                    if at > 0 and line[at:] != last:
                        last = line[at:]
                        yield last.decode("utf-8", "replace")
        except OSError as error:
            _refusal(error)

    def boot_time(self) -> float:
        """When the machine was started, unix seconds (`btime`); 0 when unknown."""
        data = self._whole(f"{self.root}/stat", 1 << 22) or b""
        at = data.find(b"\nbtime ")
        try:
            return float(data[at + 7 : at + 30].split()[0]) if at >= 0 else 0.0
        except (IndexError, ValueError):
            return 0.0

    def own_pid(self) -> int | None:
        """This program's pid as this /proc numbers it."""
        try:
            return int(os.readlink(f"{self.root}/self"))
        except (OSError, ValueError):
            return None

    def initial_pid_namespace(self) -> bool:
        """Whether this /proc numbers processes as the machine itself, and so NVML, does."""
        try:
            return os.readlink(f"{self.root}/1/ns/pid") == f"pid:[{INITIAL_PID_NAMESPACE}]"
        except OSError:
            # Only root may ask that of process 1. kthreadd is the machine's second process and no container's.
            kthreadd = self.stat(2)
            return kthreadd is not None and kthreadd.kernel_thread

    def _whole(self, path: str, limit: int) -> bytes | None:
        try:
            return b"".join(_pieces(path, limit))
        except OSError as error:
            _refusal(error)
            return None


def _pieces(path: str, limit: int) -> Iterator[bytes]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        while limit > 0 and (piece := os.read(descriptor, min(limit, 1 << 16))):
            limit -= len(piece)
            yield piece
    finally:
        os.close(descriptor)


def _refusal(error: OSError) -> None:
    """Lets "it has gone" pass; raises NotAllowed for a refusal, and anything unexpected as it came."""
    if error.errno in (errno.EACCES, errno.EPERM):
        raise NotAllowed(f"{error.filename}: {error.strerror}") from error
    if error.errno not in _GONE:
        raise error
