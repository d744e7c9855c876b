"""Sockets in the network namespace of the instance: loopback there is not loopback here.

A socket belongs for ever to the namespace in which it was made, whoever uses it. So a thread that lives for nothing
else enters the namespace, makes the socket and ends; connecting and talking happen as usual, with the usual deadlines.
No other thread of this program ever leaves its own namespace, and no helper program is needed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.collect.bounded import Late, within

SocketMaker = Callable[[int], socket.socket]
"""Address family -> a new TCP socket. Raises OSError, or NamespaceClosed."""

CLONE_NEWNET = 0x40000000
"""<linux/sched.h>"""

ENTER_SECONDS = 5.0
"""Entering a namespace takes microseconds; this bounds a machine that is barely alive."""


class NamespaceClosed(Exception):
    """The namespace may not be entered, or is gone; the text says why and what to do."""


class Side(str, Enum):
    """Where the instance's network is: HERE, in another namespace (ELSEWHERE), or not to be seen (UNKNOWN)."""

    HERE = "here"
    ELSEWHERE = "elsewhere"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Network:
    """`note`: why it is UNKNOWN, else empty. `path`: the instance's namespace."""

    side: Side
    path: Path
    note: str = ""


def network_of(proc: Path, pid: int, own: Path = Path("/proc/self/ns/net")) -> Network:
    """Compares the process's network namespace with that of this program."""
    path = proc / str(pid) / "ns" / "net"
    try:
        theirs, ours = path.stat(), own.stat()
    except OSError as error:
        note = f"the network namespace of process {pid} cannot be looked at ({error.strerror})"
        return Network(Side.UNKNOWN, path, note)
    same = (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)
    return Network(Side.HERE if same else Side.ELSEWHERE, path)


def own_socket(family: int) -> socket.socket:
    """A TCP socket of this program's own namespace."""
    return socket.socket(family, socket.SOCK_STREAM)


def sockets_in(network: Network) -> SocketMaker:
    """Makes sockets where the instance's network is."""
    if network.side is not Side.ELSEWHERE:
        return own_socket

    def make(family: int) -> socket.socket:
        try:
            return within(ENTER_SECONDS, lambda: _made_inside(network.path, family), "ras-namespace")
        except OSError as error:
            if error.errno == errno.EAFNOSUPPORT:  # no IPv6 there: the caller goes on with the next address
                raise
            raise NamespaceClosed(_why(network, error.strerror or str(error))) from error
        except Late as late:
            raise NamespaceClosed(_why(network, str(late))) from late

    return make


def _made_inside(path: Path, family: int) -> socket.socket:
    """For a thread that ends with this call: it stays in the namespace."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(descriptor)
    return socket.socket(family, socket.SOCK_STREAM)


def _why(network: Network, what: str) -> str:
    pid = network.path.parts[-3]
    return (
        f"process {pid} lives in another network namespace, where alone its RAS port can be reached, and entering it "
        f"failed ({what}); run this inside the container (kubectl exec, a sidecar of the pod), or as root with "
        "CAP_SYS_ADMIN on the host"
    )
