"""One HTTP request with an end: whatever the other side does, it is over at the deadline and holds bounded memory."""

from __future__ import annotations

import http.client
import io
import socket
from dataclasses import dataclass

from rankmuster.collect.deadline import Deadline

MAX_REPLY_BYTES = 64 << 20
"""A JSON dump of 2,000 entries has 0.94 MB."""


class NoReply(Exception):
    """Nothing usable came back. The text says what did."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes


def exchange(connection: socket.socket, method: str, path: str, deadline: Deadline) -> Reply:
    """Asks over a connected socket, which it closes. `path`: with its query. Raises NoReply."""
    request = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with connection:
        try:
            connection.settimeout(_left(deadline))
            connection.sendall(request.encode("ascii"))
            raw = _everything(connection, deadline)
        except TimeoutError as error:
            raise NoReply("no whole reply in time") from error
        except OSError as error:
            raise NoReply(f"the connection broke ({error.strerror or error})") from error
    return _parsed(raw, method)


def _left(deadline: Deadline) -> float:
    left = deadline.remaining()
    if left <= 0:
        raise TimeoutError
    return left


def _everything(connection: socket.socket, deadline: Deadline) -> bytes:
    """Until the other side closes, or the length that it announced is there."""
    buffer = bytearray()
    wanted: int | None = None
    while wanted is None or len(buffer) < wanted:
        connection.settimeout(_left(deadline))
        part = connection.recv(1 << 18)
        if not part:
            break
        buffer += part
        if len(buffer) > MAX_REPLY_BYTES:
            raise NoReply(f"a reply of more than {MAX_REPLY_BYTES >> 20} MiB")
        if wanted is None:
            wanted = _announced(buffer)
    return bytes(buffer)


def _announced(buffer: bytearray) -> int | None:
    """How long the whole reply is, once its head is there and says so."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    for line in bytes(buffer[:end]).split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value) < 20:
            return end + 4 + int(value)
    return None


class _Read:
    """What `http.client` takes for a connection whose bytes are all there."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._raw)


def _parsed(raw: bytes, method: str) -> Reply:
    if not raw:
        raise NoReply("it closed the connection without a word")
    response = http.client.HTTPResponse(_Read(raw), method=method)  # type: ignore[arg-type]
    try:
        response.begin()
        return Reply(response.status, response.read())
    except http.client.IncompleteRead as error:
        raise NoReply(f"the reply ends after {len(error.partial)} bytes") from error
    except (http.client.HTTPException, ValueError, OSError) as error:
        raise NoReply(f"no HTTP: it begins with {raw[:16]!r}") from error
