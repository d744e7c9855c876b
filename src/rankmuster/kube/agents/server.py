"""An HTTP server that nobody can hold up: few threads, small heads, bounded bodies, and an end for every connection.

One request a connection. Whoever drips bytes satisfies every time-out of a single read, so each connection has a moment
at which it is cut, whatever it does. Nobody may take all places: one address gets a part of them.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from rankmuster.collect.deadline import Clock
from rankmuster.metrics.server import ListenRefused, address_of

HEAD_SECONDS = 10.0
"""For request line and headers together: they fit into one packet."""

HEAD_BYTES = 16 << 10
"""Of request line and headers: ours have 400 bytes, a proxy's some thousand."""

MOST_CONNECTIONS = 48
MOST_OF_ONE = 12
"""Connections at once of one address: controller, Prometheus and a person share it at worst (a node's address)."""

LEAST_BYTES_PER_SECOND = 256 << 10
"""What a body must come and go with, beside its route's own seconds: a hundredth of what a slow network does."""

ANY = "*"

PIECE = 256 << 10
SWEEP_SECONDS = 0.25

_WORDS = {
    200: "OK",
    201: "Created",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    422: "Unprocessable Content",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    507: "Insufficient Storage",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """`file` instead of `body`: sent from its open handle, so that nobody can take it away meanwhile; closed after."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    file: IO[bytes] | None = None


def trouble(status: int, message: str) -> Answer:
    """An error as JSON."""
    return Answer(status, json.dumps({"error": message[:2000]}).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class Asked:
    """`path`: below the route, without its slash. `body`: reads at most what the client said it sends, never more."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    length: int
    body: Callable[[int], bytes]
    client: str

    def whole(self) -> bytes:
        """The body. Raises BodyCut where it ended early."""
        data = bytearray()
        while piece := self.body(PIECE):
            data += piece
        return bytes(data)


class BodyCut(Exception):
    """The client has not sent what it said it would."""


@dataclass(frozen=True, slots=True)
class Route:
    """`path`: exactly, or with a `/` at its end everything below. `open`: without the token. `most`: bytes of a body.
    `seconds`: for all of it after the head, beside what the bytes themselves take."""

    method: str
    path: str
    handle: Callable[[Asked], Answer]
    open: bool = False
    most: int = 0
    seconds: float = 30.0

    def below(self, path: str) -> str | None:
        """The rest of `path` below this route; None where it is another's."""
        if self.path.endswith("/"):
            return path[len(self.path) :] if path.startswith(self.path) and len(path) > len(self.path) else None
        return "" if path == self.path else None


def _bound(host: str, port: int) -> socket.socket:
    """`*`: every address of this machine, of both kinds where it has both. Raises OSError."""
    if host == ANY:
        if socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):
                return socket.create_server(("", port), family=socket.AF_INET6, backlog=64, dualstack_ipv6=True)
        return socket.create_server(("", port), backlog=64)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0]
    return socket.create_server(found[4][:2], family=found[0], backlog=64)


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server:
    """Serves `routes` on `listen` from when it is made until `close`. `allowed`: whether an Authorization header is
    right; None where nobody can say, since there is no token. Raises ListenRefused.
    """

    def __init__(
        self,
        listen: str,
        routes: tuple[Route, ...],
        allowed: Callable[[str], bool | None],
        *,
        clock: Clock = time.monotonic,
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        host, port = address_of(listen)
        self._routes = routes
        self._allowed = allowed
        self._clock = clock
        self._head_seconds = head_seconds
        self._lock = threading.Lock()
        self._ends: dict[socket.socket, float] = {}
        self._clients: Counter[str] = Counter()
        self._closed = False
        try:
            self._socket = _bound(host, port)
        except OSError as error:
            raise ListenRefused(
                f"{listen} cannot be listened on: {error.strerror or error}; another program may have the port, or the "
                "address is none of this machine's"
            ) from error
        for name, work in (("accept", self._accept), ("sweep", self._sweep)):
            threading.Thread(target=work, name=f"serve-{name}", daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port: the port that was given for 0 too."""
        said = self._socket.getsockname()
        return str(said[0]), int(said[1])

    def close(self) -> None:
        """No more connections; those that are being answered are cut."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            held = list(self._ends)
        for one in held:
            _cut(one)

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, address = self._socket.accept()
            except OSError:
                if not self._closed:
                    time.sleep(0.05)  # no more descriptors: those that are held end soon
                continue
            client = str(address[0])
            with self._lock:
                full = len(self._ends) >= MOST_CONNECTIONS or self._clients[client] >= MOST_OF_ONE
                if not full:
                    self._ends[connection] = self._clock() + self._head_seconds
                    self._clients[client] += 1
            if full:
                connection.close()
                continue
            worker = threading.Thread(target=self._serve, args=(connection, client), name="serve", daemon=True)
            try:
                worker.start()
            except RuntimeError:  # no more threads: a pod's pids limit
                self._done(connection, client)

    def _sweep(self) -> None:
        while not self._closed:
            now = self._clock()
            with self._lock:
                over = [one for one, end in self._ends.items() if now >= end]
            for one in over:
                _cut(one)
            time.sleep(SWEEP_SECONDS)

    def _until(self, connection: socket.socket, seconds: float) -> None:
        with self._lock:
            if connection in self._ends:
                self._ends[connection] = self._clock() + seconds

    def _done(self, connection: socket.socket, client: str) -> None:
        with self._lock:
            self._ends.pop(connection, None)
            self._clients[client] -= 1
            if self._clients[client] <= 0:
                del self._clients[client]
        connection.close()

    def _serve(self, connection: socket.socket, client: str) -> None:
        try:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._one(connection, client)
        finally:
            self._done(connection, client)

    def _one(self, connection: socket.socket, client: str) -> None:
        try:
            head, rest = _head(connection)
        except _Refused as refused:
            _send(connection, trouble(refused.status, str(refused)), bare=False)
            return
        bare = head.method == "HEAD"
        try:
            route, below = self._route(head)
            self._authorise(route, head)
            length = _length(head, route)
            self._until(connection, route.seconds + length / LEAST_BYTES_PER_SECOND)
            if head.headers.get("expect", "").lower() == "100-continue":
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            asked = Asked(
                head.method, below, head.query, head.headers, length, _Body(connection, rest, length).read, client
            )
            answer = self._answer(route, asked)
        except _Refused as refused:
            answer = trouble(refused.status, str(refused))
        size = len(answer.body)
        if answer.file is not None:
            size = answer.file.seek(0, 2)
            answer.file.seek(0)
        self._until(connection, self._head_seconds + size / LEAST_BYTES_PER_SECOND)
        _send(connection, answer, bare=bare)

    def _answer(self, route: Route, asked: Asked) -> Answer:
        try:
            return route.handle(asked)
        except BodyCut as error:
            raise _Refused(400, str(error)) from error
        except Exception as error:
            # what a request does must not end the process: in a pod that would be a restart, and perhaps a group's
            raise _Refused(500, f"internal error: {type(error).__name__}: {error}") from error

    def _route(self, head: _Head) -> tuple[Route, str]:
        method = "GET" if head.method == "HEAD" else head.method
        found = [(route, below) for route in self._routes if (below := route.below(head.path)) is not None]
        for route, below in found:
            if route.method == method:
                return route, below
        if found:
            raise _Refused(405, f"{head.method} is not for this path")
        raise _Refused(404, "there is nothing at this path")

    def _authorise(self, route: Route, head: _Head) -> None:
        if route.open:
            return
        right = self._allowed(head.headers.get("authorization", ""))
        if right is None:
            raise _Refused(503, "there is no token here to compare with: is the secret mounted?")
        if not right:
            raise _Refused(401, "wanted is the header Authorization: Bearer TOKEN with the token of this installation")


@dataclass(frozen=True, slots=True)
class _Head:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


def _head(connection: socket.socket) -> tuple[_Head, bytes]:
    """The head, and what came of the body with it. Raises _Refused, OSError."""
    data = bytearray()
    while b"\r\n\r\n" not in data:
        if len(data) > HEAD_BYTES:
            raise _Refused(431, f"the request's head has more than {HEAD_BYTES} bytes")
        piece = connection.recv(8192)
        if not piece:
            raise ConnectionError
        data += piece
    head, _, rest = bytes(data).partition(b"\r\n\r\n")
    if len(head) > HEAD_BYTES:
        raise _Refused(431, f"the request's head has more than {HEAD_BYTES} bytes")
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not parts[0].isalpha():
        raise _Refused(400, "this is no request of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise _Refused(400, "a header cannot be read, or is there twice")
        headers[name.lower()] = value.strip()
    try:
        said = urlsplit(parts[1])
        query = dict(parse_qsl(said.query, max_num_fields=32))
        path = unquote(said.path, errors="strict")
    except (ValueError, UnicodeDecodeError) as error:
        raise _Refused(400, "the address cannot be read") from error
    return _Head(parts[0].upper(), path, query, headers), rest


def _length(head: _Head, route: Route) -> int:
    if "transfer-encoding" in head.headers:
        raise _Refused(411, "send a body with Content-Length")
    said = head.headers.get("content-length", "0")
    if not said.isascii() or not said.isdigit() or len(said) > 15:
        raise _Refused(400, "Content-Length is no number")
    if int(said) > route.most:
        raise _Refused(413, f"a body of {said} bytes is more than the {route.most} that this takes")
    return int(said)


class _Body:
    def __init__(self, connection: socket.socket, begun: bytes, length: int) -> None:
        self._connection, self._begun, self._left = connection, begun[:length], length

    def read(self, most: int) -> bytes:
        """The next bytes, none at the end. Raises BodyCut."""
        if not self._left:
            return b""
        piece, self._begun = self._begun[:most], self._begun[most:]
        if not piece:
            try:
                piece = self._connection.recv(min(most, self._left))
            except OSError:
                piece = b""
        if not piece:
            raise BodyCut(f"the body ended {self._left} bytes before its Content-Length")
        self._left -= len(piece)
        return piece


def _send(connection: socket.socket, answer: Answer, *, bare: bool) -> None:
    file: Any = answer.file
    try:
        size = len(answer.body)
        if file is not None:
            size = file.seek(0, 2)
            file.seek(0)
        lines = [f"HTTP/1.1 {answer.status} {_WORDS.get(answer.status, 'Answer')}"]
        own = {"Content-Type": answer.content_type, "Content-Length": str(size), "Connection": "close"}
        if answer.status == 401:
            own["WWW-Authenticate"] = "Bearer"
        lines += [
            f"{name}: {''.join(filter(str.isprintable, value))}" for name, value in {**own, **answer.headers}.items()
        ]
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))
        if bare:
            return
        if file is None:
            connection.sendall(answer.body)
        else:
            while piece := file.read(PIECE):
                connection.sendall(piece)
        with contextlib.suppress(OSError):
            # what was sent and not read would turn the close into a reset, and the answer would be lost
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(0.5)
            for _ in range(64):
                if not connection.recv(PIECE):
                    break
    finally:
        if file is not None:
            file.close()


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


__all__ = ["Answer", "Asked", "BodyCut", "ListenRefused", "Route", "Server", "trouble"]
