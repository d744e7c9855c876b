"""Reads /proc, below any root, a bounded piece at a time, and never fails over a process that has gone.

What takes the lock of a process's memory map (`cmdline`, `environ`, `maps`) may wait for as long as the process holds
it, which one that is stuck in a driver can do for ever: callers read those through `bounded.each`. `stat`, `status`,
links and `cgroup` take no such lock.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.proc_text import Stat, Status, parse_command, parse_environ, parse_stat, parse_status

MAX_TEXT = 6 << 20
"""Bytes of `environ` and `cmdline`: Linux allows so many for both together. Real ones take some KiB, but a pod has
variables for each service of its namespace, and the launcher's own stand behind them."""
MAX_MAPS = 64 << 20
"""Bytes of `maps`: a process may have 65,530 areas of some 150 bytes (vm.max_map_count)."""
INITIAL_PID_NAMESPACE = 4026531836
"""PROC_PID_INIT_INO of include/linux/proc_ns.h: the inode of the machine's own pid namespace."""

_GONE = {errno.ENOENT, errno.ESRCH, errno.ENOTDIR, errno.EINVAL, errno.EIO, errno.ELOOP, errno.EISDIR, errno.ENXIO}


class NotAllowed(Exception):
    """The kernel refused: another user's process, or a container without the right to look at its neighbours."""


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
