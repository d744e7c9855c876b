"""HAProxy's runtime socket: one command a connection, one answer, by a deadline.

Without `prompt` HAProxy answers one line and closes (management guide, section 9.3): the end of the connection is the
end of the answer. Errors come as texts without a code: `haproxy_answers` reads them.
"""

from __future__ import annotations

import socket

from rankmuster.adapters.connect import NotConnected, connect, words
from rankmuster.collect.deadline import Deadline

MAX_ANSWER = 4 << 20
"""Bytes: `show stat` of one backend with 4,000 servers has 1.5 MiB."""

CHUNK = 64 << 10


class NotAsked(Exception):
    """No whole answer came; the message says why. `sent`: whether the command may have been carried out."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


def ask(address: str, command: str, deadline: Deadline) -> str:
    """What HAProxy says to `command`. `address`: a path (it has a `/`), or HOST:PORT. Raises NotAsked."""
    with _connected(address, deadline) as sock:
        taken = b""
        try:
            sock.settimeout(max(deadline.remaining(), 0.001))
            sock.sendall(command.encode("ascii") + b"\n")
            while True:
                if deadline.passed:
                    raise TimeoutError
                sock.settimeout(max(deadline.remaining(), 0.001))
                data = sock.recv(CHUNK)
                if not data:
                    return taken.decode("utf-8", "replace")
                taken += data
                if len(taken) > MAX_ANSWER:
                    raise NotAsked(f"its answer has more than {MAX_ANSWER >> 20} MiB: that is no HAProxy", sent=True)
        except TimeoutError as error:
            raise NotAsked("it took the command and did not answer in time", sent=True) from error
        except OSError as error:
            raise NotAsked(f"the connection broke ({words(error)})", sent=True) from error


def _connected(address: str, deadline: Deadline) -> socket.socket:
    if deadline.passed:
        raise NotAsked("there was no time left to ask", sent=False)
    if "/" not in address:
        host, _, port = address.rpartition(":")
        if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise NotAsked("the address is neither a path nor HOST:PORT", sent=False)
        try:
            return connect(host.removeprefix("[").removesuffix("]") or "localhost", int(port), deadline)
        except NotConnected as error:
            raise NotAsked(f"no connection could be made ({error})", sent=False) from error
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(max(deadline.remaining(), 0.001))
        sock.connect(address)
    except (OSError, ValueError) as error:
        sock.close()
        why = str(error) if not isinstance(error, OSError) or error.strerror is None else words(error)
        raise NotAsked(f"the socket cannot be opened ({why})", sent=False) from error
    return sock
