"""One connection to a RAS service: its line protocol, with a bound on every wait and every size.

What the server's event loop makes necessary (NCCL src/ras/client_support.cc): nothing is sent after the request for a
report and the connection is never half-closed, since either makes the RAS thread of the job spin until the report is
done. Every process of a node's user listens on the same port, and the kernel picks one a connection: a stopped one
accepts and never answers, so that asking again may reach another.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.ras.address import Address
from rankmuster.collect.ras.attempts import Attempt, Met, NoAnswer
from rankmuster.collect.ras.namespace import SocketMaker, own_socket

HANDSHAKE_SECONDS = 1.0
"""As NCCL's own client (src/ras/client.cc); a RAS thread that runs answers within a millisecond."""

LINE_SECONDS = 2.0
"""For the answer to a command that starts nothing; the thread may be busy with a large report meanwhile."""

MAX_LINE = 1024
"""Bytes of an answer line: NCCL's own buffer for lines (src/ras/client_support.cc)."""

MAX_SILENT = 5
"""Connections of one query that may be accepted and not answered: with half of the processes stopped, fewer than one
query in 30 meets stopped ones alone."""

MAX_REPLY = 64 << 20
"""Bytes of a report. JSON takes some 600 a rank and communicator: 100 000 of those."""

_PIECE = 1 << 16
_LOOK_SECONDS = 0.05
_GREETING = "CLIENT PROTOCOL 2"
_GREETED = "SERVER PROTOCOL "


class Broken(Exception):
    """The connection ended, or answered beyond the protocol, after the handshake; the text says how."""


class Ended(str, Enum):
    """How a report ended. WHOLE: the server closed. The others are cut: at the deadline, at the bound on the size, or
    by a connection that broke."""

    WHOLE = "whole"
    TIME = "time"
    SIZE = "size"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Reply:
    """`data`: every byte after the request, raw. `seconds`: from the request to the end."""

    data: bytes
    ended: Ended
    seconds: float
    detail: str = ""


class Session:
    """An open connection that has been greeted. Use as a context manager; every method bounds its own wait."""

    def __init__(self, connection: socket.socket, address: str, rest: bytes, greeting: str) -> None:
        self.address = address
        self.greeting = greeting
        self._socket = connection
        self._rest = rest  # bytes that came behind the last line

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection in both directions at once."""
        self._socket.close()

    def ask(self, command: str, deadline: Deadline) -> str:
        """Sends a command that is answered by one line, and returns that line without its end. Raises Broken."""
        until = deadline.within(LINE_SECONDS)
        try:
            _send(self._socket, command, until)
            line, self._rest = _line(self._socket, self._rest, until)
        except TimeoutError as error:
            raise Broken(f"no answer to {command!r} within {LINE_SECONDS:g} s or by the deadline") from error
        except OSError as error:
            raise Broken(f"the connection broke at {command!r} ({error.strerror or error})") from error
        except _NotALine as error:
            raise Broken(f"{command!r} was answered with {error}") from error
        return line

    def report(
        self,
        command: str,
        deadline: Deadline,
        *,
        max_bytes: int = MAX_REPLY,
        clock: Callable[[], float] = time.monotonic,
    ) -> Reply:
        """Sends the last command of a connection and reads until the server closes; never raises."""
        try:
            _send(self._socket, command, deadline)
        except OSError as error:
            return Reply(b"", Ended.BROKEN, 0.0, error.strerror or str(error))
        return self.listen(deadline, max_bytes=max_bytes, clock=clock)

    def listen(
        self,
        deadline: Deadline,
        *,
        max_bytes: int,
        stop: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> Reply:
        """Reads, without sending anything, until the server closes; never raises.

        `stop`: asked twenty times a second; True ends the reading (for streams that have no end).
        """
        begun = clock()
        pieces = [self._rest] if self._rest else []
        size = len(self._rest)
        ended, detail = Ended.TIME, ""
        try:
            while not deadline.passed and not stop():
                self._socket.settimeout(max(min(deadline.remaining(), _LOOK_SECONDS), 0.001))
                try:
                    piece = self._socket.recv(max(min(_PIECE, max_bytes - size), 1))
                except TimeoutError:
                    continue
                if not piece:
                    ended = Ended.WHOLE
                    break
                pieces.append(piece)
                size += len(piece)
                if size >= max_bytes:
                    ended, detail = Ended.SIZE, f"longer than {max_bytes} bytes"
                    break
        except OSError as error:
            ended, detail = Ended.BROKEN, error.strerror or str(error)
        return Reply(b"".join(pieces), ended, clock() - begun, detail)

    def drain(self, max_bytes: int) -> Reply:
        """What has come by now, without waiting for more; never raises. TIME: the connection is open still.

        At most `max_bytes`, and not below one: what is left over comes with the next call.
        """
        pieces, self._rest = ([self._rest] if self._rest else []), b""
        size = sum(map(len, pieces))
        ended, detail = Ended.TIME, ""
        try:
            self._socket.settimeout(0)
            while size < max_bytes:
                piece = self._socket.recv(min(_PIECE, max_bytes - size))
                if not piece:
                    ended = Ended.WHOLE
                    break
                pieces.append(piece)
                size += len(piece)
        except BlockingIOError:
            pass
        except OSError as error:
            ended, detail = Ended.BROKEN, error.strerror or str(error)
        return Reply(b"".join(pieces), ended, 0.0, detail)


@dataclass(slots=True)
class Service:
    """Where to connect, and what came of every attempt so far; not shared between threads.

    `addresses`: all of the service's host. `sockets`: makes them, in the right network namespace. `now`: unix seconds.
    """

    addresses: tuple[Address, ...]
    sockets: SocketMaker = own_socket
    now: Callable[[], float] = time.time
    clock: Callable[[], float] = time.monotonic
    attempts: list[Attempt] = field(default_factory=list)

    def open(self, deadline: Deadline) -> Session:
        """A greeted connection. Raises NoAnswer when there is none by the deadline, and NamespaceClosed."""
        first = len(self.attempts)
        candidates = list(self.addresses)
        unanswered = 0
        while candidates and not deadline.passed and unanswered < MAX_SILENT:
            for address in tuple(candidates):
                if deadline.passed or unanswered >= MAX_SILENT:
                    break
                session, met = self._attempt(address, deadline)
                if session is not None:
                    return session
                if met in (Met.SILENT, Met.CLOSED):
                    unanswered += 1
                else:
                    candidates.remove(address)
        raise NoAnswer(tuple(self.attempts[first:]))

    def _attempt(self, address: Address, deadline: Deadline) -> tuple[Session | None, Met]:
        at, begun = self.now(), self.clock()
        session, met, detail = self._greet(address, deadline.within(HANDSHAKE_SECONDS))
        self.attempts.append(Attempt(str(address), met, at, self.clock() - begun, detail))
        return session, met

    def _greet(self, address: Address, deadline: Deadline) -> tuple[Session | None, Met, str]:
        try:
            connection = self.sockets(address.family)
        except OSError as error:
            return None, Met.UNREACHABLE, error.strerror or str(error)
        session, met, detail = _greeted(connection, address, deadline)
        if session is None:
            connection.close()
        return session, met, detail


def _greeted(connection: socket.socket, address: Address, deadline: Deadline) -> tuple[Session | None, Met, str]:
    try:
        connection.settimeout(max(deadline.remaining(), 0.001))
        connection.connect(address.sockaddr)
    except ConnectionRefusedError as error:
        return None, Met.REFUSED, error.strerror or "refused"
    except OSError as error:
        return None, Met.UNREACHABLE, error.strerror or str(error)
    try:
        _send(connection, _GREETING, deadline)
        line, rest = _line(connection, b"", deadline)
    except TimeoutError:
        return None, Met.SILENT, "timed out"
    except OSError as error:
        return None, Met.CLOSED, error.strerror or str(error)
    except _NotALine as error:
        return (None, Met.CLOSED, str(error)) if error.empty else (None, Met.FOREIGN, str(error))
    if not line.startswith(_GREETED):
        return None, Met.FOREIGN, f"it said {line[:60]!r}"
    return Session(connection, str(address), rest, line), Met.RAS, line[:60]


class _NotALine(Exception):
    """What came was no line. `empty`: nothing at all, the peer closed."""

    def __init__(self, message: str, *, empty: bool) -> None:
        super().__init__(message)
        self.empty = empty


def _send(connection: socket.socket, command: str, deadline: Deadline) -> None:
    connection.settimeout(max(deadline.remaining(), 0.001))
    connection.sendall(command.encode("ascii") + b"\n")


def _line(connection: socket.socket, begun: bytes, deadline: Deadline) -> tuple[str, bytes]:
    """(line without its end, what came behind it). Raises TimeoutError, OSError, _NotALine."""
    data = begun
    while b"\n" not in data:
        if len(data) >= MAX_LINE:
            raise _NotALine(f"{len(data)} bytes without an end of line, first {_shown(data)}", empty=False)
        if deadline.passed:
            raise TimeoutError
        connection.settimeout(max(deadline.remaining(), 0.001))
        piece = connection.recv(MAX_LINE)
        if not piece:
            what = f"{_shown(data)} and a closed connection" if data else "nothing: it closed the connection"
            raise _NotALine(what, empty=not data)
        data += piece
    line, _, rest = data.partition(b"\n")
    if len(line) > MAX_LINE:
        raise _NotALine(f"a line of {len(line)} bytes", empty=False)
    return line.decode("ascii", errors="backslashreplace").rstrip("\r"), rest


def _shown(data: bytes) -> str:
    return ascii(data[:40].decode("latin-1"))
