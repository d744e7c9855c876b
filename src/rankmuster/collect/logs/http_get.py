"""One GET with an end: no proxy, no credentials, no redirect to another server, a bounded body, a bounded time."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

MAX_BODY = 16 << 20
"""Bytes of one page: a real vLLM page has 100 KiB to 1 MiB."""
MAX_REDIRECTS = 2
"""Some servers answer `/metrics` with a redirect to `/metrics/` of their own."""

_HEADERS = {"Accept": "text/plain;version=0.0.4, */*;q=0.1", "Accept-Encoding": "identity", "Connection": "close"}


class Unanswered(Exception):
    """No page came: `refused` when nobody listens there, which says that there is no such server."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Page:
    """`body`: at most MAX_BODY of it; `cut`: whether there was more."""

    status: int
    body: bytes
    cut: bool


def get(url: str, seconds: float) -> Page:
    """The page, all within `seconds`. Raises Unanswered, whatever goes wrong."""
    end = time.monotonic() + seconds
    for _ in range(MAX_REDIRECTS + 1):
        parts = _checked(url)
        page, location = _once(parts, end)
        if location is None:
            return page
        wanted = urlsplit(urljoin(url, location))
        if (wanted.scheme, wanted.netloc) != (parts.scheme, parts.netloc):
            raise Unanswered(
                f"it redirects to another server ({wanted.scheme}://{wanted.netloc}), which is not followed"
            )
        url = wanted.geturl()
    raise Unanswered(f"it redirects more than {MAX_REDIRECTS} times")


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError as error:
        raise Unanswered(f"is no URL: {error}") from error
    if not usable:
        raise Unanswered("is no http or https URL with a host")
    return parts


def _connection(parts: SplitResult, seconds: float) -> http.client.HTTPConnection:
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=seconds)
    context = ssl.create_default_context()
    # A server on this node signs for itself, and nothing secret is told to it.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=seconds, context=context)


def _once(parts: SplitResult, end: float) -> tuple[Page, str | None]:
    """The answer, or where it redirects to."""
    left = end - time.monotonic()
    if left <= 0:
        raise Unanswered("there was no time left to ask")
    connection = _connection(parts, left)
    late = "no connection came about"
    try:
        connection.connect()
        # A server that drips a byte now and then satisfies every time-out of a single read.
        cutter = threading.Timer(max(end - time.monotonic(), 0.01), _shut, (connection.sock,))
        cutter.daemon = True
        cutter.start()
        late = "the connection was made and no answer came"
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", path, headers=_HEADERS)
            answer = connection.getresponse()
            late = "the answer had not ended by then"
            location = answer.getheader("Location") if answer.status in (301, 302, 303, 307, 308) else None
            body = b"" if location is not None else answer.read(MAX_BODY + 1)
        finally:
            cutter.cancel()
        if time.monotonic() >= end:
            raise Unanswered(late)
        if location is None and answer.length and len(body) <= MAX_BODY:
            raise Unanswered(f"the answer broke off after {len(body)} bytes, {answer.length} before its end")
        return Page(answer.status, body[:MAX_BODY], len(body) > MAX_BODY), location
    except ConnectionRefusedError as error:
        raise Unanswered("nobody listens there", refused=True) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, TimeoutError) or time.monotonic() >= end:
            raise Unanswered(late) from error
        raise Unanswered(f"{type(error).__name__}: {error}"[:200]) from error
    finally:
        connection.close()


def _shut(sock: socket.socket | None) -> None:
    try:
        if sock is not None:
            sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed already
