"""Which sockets a process listens on, from /proc: a port is asked only when it is known to be the process's own."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.process_now import open_files

MAX_TABLE_BYTES = 16 << 20
"""Of one of /proc/PID/net's tables; a busy server has some thousands of lines of 150 bytes."""

_SOCKET = re.compile(r"socket:\[(\d+)\]")
_LISTEN = "0A"  # TCP_LISTEN
_UNIX_LISTENS = "00010000"  # __SO_ACCEPTCON, the only flag that is shown
_UNIX_FIELDS = 7


@dataclass(frozen=True, slots=True)
class Listening:
    """`tcp`, `tcp6`: ports by address family; `unix`: paths."""

    tcp: frozenset[int] = frozenset()
    tcp6: frozenset[int] = frozenset()
    unix: frozenset[str] = frozenset()

    @property
    def ports(self) -> frozenset[int]:
        """Of either family."""
        return self.tcp | self.tcp6


def listening_of(proc: Path, pid: int) -> Listening:
    """Nothing where it cannot be seen."""
    files = open_files(proc, pid)
    if not files:
        return Listening()
    inodes = {match.group(1) for target in files.values() if (match := _SOCKET.fullmatch(target))}
    folder = proc / str(pid) / "net"
    return Listening(
        _ports(_table(folder / "tcp"), inodes),
        _ports(_table(folder / "tcp6"), inodes),
        _paths(_table(folder / "unix"), inodes),
    )


def same_network(proc: Path, pid: int) -> bool:
    """Whether the process's loopback is this program's."""
    try:
        return os.stat(proc / str(pid) / "ns" / "net").st_ino == os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return False


def _table(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return file.read(MAX_TABLE_BYTES).decode("utf-8", "surrogateescape").split("\n")[1:]
    except OSError:
        return []


def _ports(lines: list[str], inodes: set[str]) -> frozenset[int]:
    found = set()
    for line in lines:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTEN and fields[9] in inodes:
            try:
                found.add(int(fields[1].rpartition(":")[2], 16))
            except ValueError:  # cut at the bound
                continue
    return frozenset(found)


def _paths(lines: list[str], inodes: set[str]) -> frozenset[str]:
    found = set()
    for line in lines:
        fields = line.split(None, _UNIX_FIELDS)
        if len(fields) == _UNIX_FIELDS + 1 and fields[6] in inodes and fields[3] == _UNIX_LISTENS:
            found.add(fields[7])
    return frozenset(found)
