"""A TCP connection by a deadline, whatever the resolver does and however many addresses a name has."""

from __future__ import annotations

import socket
import threading
from typing import Any

from rankmuster.collect.deadline import Deadline

Address = tuple[socket.AddressFamily, socket.SocketKind, int, Any]
"""Family, kind, protocol, and the address as the family has it."""


class NotConnected(Exception):
    """There is no connection, and nothing was sent; the message says why in few words."""


def connect(host: str, port: int, deadline: Deadline) -> socket.socket:
    """A connected socket, whose own time-out is what is left. Raises NotConnected.

    Each address gets what is left of the time: the time-out of `socket.create_connection` counts anew for each.
    """
    trouble = "the name has no address"
    for family, kind, protocol, address in _addresses(host, port, deadline):
        if deadline.passed:
            break
        sock = None
        try:
            sock = socket.socket(family, kind, protocol)
            sock.settimeout(max(deadline.remaining(), 0.001))
            sock.connect(address)
            return sock
        except (OSError, ValueError, UnicodeError) as error:
            if sock is not None:
                sock.close()
            trouble = "no connection in time" if isinstance(error, TimeoutError) else words(error)
    raise NotConnected("no connection in time" if deadline.passed else trouble)


def _addresses(host: str, port: int, deadline: Deadline) -> list[Address]:
    # A resolver takes no time-out, and a failing node's may take minutes: it is left behind in a thread of its own.
    found: list[Address] = []
    failed: list[str] = []

    def ask() -> None:
        try:
            for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                found.append((family, kind, protocol, address))
        except (OSError, ValueError, UnicodeError) as error:
            failed.append(words(error))

    thread = threading.Thread(target=ask, name="resolve", daemon=True)
    thread.start()
    thread.join(deadline.remaining())
    if thread.is_alive():
        raise NotConnected("the name was not resolved in time")
    if failed:
        raise NotConnected(failed[0])
    return found


def words(error: BaseException) -> str:
    """Never the message of what may quote a header or a path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def shut(sock: socket.socket | None) -> None:
    """Ends whatever waits on it, in another thread too."""
    try:
        if sock is not None:
            sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed already
