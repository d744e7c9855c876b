"""One GET with an end: no proxy, no credentials, no redirect to another server, a bounded body, a bounded time."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

MAX_BODY = 16 << 20
"""Bytes of one page: a real vLLM page has 100 KiB to 1 MiB."""
MAX_REDIRECTS = 2
"""Some servers answer `/metrics` with a redirect to `/metrics/` of their own."""

HEAD = 65_536
"""Bytes of a page that is poured which are kept beside, to say what it was; and bytes of one piece of it."""

Take = Callable[[bytes], None]
"""Given each piece of a page in turn."""

_HEADERS = {
    "Accept": "text/plain;version=0.0.4, */*;q=0.1",
    "Accept-Encoding": "identity",
    "Cache-Control": "no-cache",
    "Connection": "close",
}


class Unanswered(Exception):
    """No page came: `refused` when nobody listens there, which says that there is no such server."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Page:
    """`body`: at most MAX_BODY of it, of a page that was poured at most HEAD; `cut`: whether there was more.

    `encoding`: how it is packed although it was asked for as it is ("gzip"), else empty. `age`: seconds that a cache
    has had it, by its own word (RFC 9111, section 5.1); `date`: when the server wrote it, as it says that.
    """

    status: int
    body: bytes
    cut: bool
    encoding: str = ""
    age: int = 0
    date: str = ""


class Hold:
    """What lets another thread end a request: `drop` closes its connection, now or as soon as there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._dropped = False

    def take(self, sock: socket.socket | None) -> None:
        """Remembers the connection that is used now; None for none any more."""
        with self._lock:
            self._sock = sock
            dropped = self._dropped
        if dropped:
            _shut(sock)

    def drop(self) -> None:
        """Ends the request that is on, and every later one."""
        with self._lock:
            self._dropped = True
            sock = self._sock
        _shut(sock)


def get(url: str, seconds: float) -> Page:
    """The page, all within `seconds`. Raises Unanswered, whatever goes wrong."""
    return _follow(url, seconds, None, None)


def pour(url: str, seconds: float, take: Take, hold: Hold | None = None) -> Page:
    """Gives the body of an answer with status 200 to `take` as it comes, so that no page is in memory as a whole.

    Raises Unanswered, also when pieces were given already: a page that breaks off is none.
    """
    return _follow(url, seconds, take, hold)


def _follow(url: str, seconds: float, take: Take | None, hold: Hold | None) -> Page:
    end = time.monotonic() + seconds
    for _ in range(MAX_REDIRECTS + 1):
        parts = _checked(url)
        page, location = _once(parts, end, take, hold)
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
    return _Encrypted(host, port, timeout=seconds)


class _Encrypted(http.client.HTTPConnection):
    """As `HTTPSConnection`, which is not there where `http.client` was loaded without OpenSSL (`cli.plain_http`)."""

    default_port = 443

    def connect(self) -> None:
        import ssl  # 5 MB, which a watch of plain pages does without

        super().connect()
        context = ssl.create_default_context()
        # A server on this node signs for itself, and nothing secret is told to it.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.sock = context.wrap_socket(self.sock, server_hostname=self.host)


def _once(parts: SplitResult, end: float, take: Take | None, hold: Hold | None) -> tuple[Page, str | None]:
    """The answer, or where it redirects to."""
    left = end - time.monotonic()
    if left <= 0:
        raise Unanswered("there was no time left to ask")
    connection = _connection(parts, left)
    late = "no connection came about"
    try:
        connection.connect()
        if hold is not None:
            hold.take(connection.sock)
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
            body, size, ended = b"", 0, True
            if location is None and take is None:
                body = answer.read(MAX_BODY + 1)
                size = len(body)
            elif location is None:
                body, size, ended = _poured(answer, take if answer.status == 200 else None)
        finally:
            cutter.cancel()
        if time.monotonic() >= end:
            raise Unanswered(late)
        if location is None and ended and answer.length and size <= MAX_BODY:
            raise Unanswered(f"the answer broke off after {size} bytes, {answer.length} before its end")
        encoding = (answer.getheader("Content-Encoding") or "").strip().lower()
        encoding = "" if encoding == "identity" else encoding
        age, date = (answer.getheader("Age") or "").strip(), (answer.getheader("Date") or "").strip()
        # A count of at most nine digits; whatever else stands there tells nothing.
        told = int(age) if re.fullmatch(r"[0-9]{1,9}", age) else 0
        return Page(answer.status, body[:MAX_BODY], size > MAX_BODY, encoding, told, date), location
    except ConnectionRefusedError as error:
        raise Unanswered("nobody listens there", refused=True) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, TimeoutError) or time.monotonic() >= end:
            raise Unanswered(late) from error
        raise Unanswered(f"{type(error).__name__}: {error}"[:200]) from error
    finally:
        if hold is not None:
            hold.take(None)
        connection.close()


def _poured(answer: http.client.HTTPResponse, take: Take | None) -> tuple[bytes, int, bool]:
    """(its first HEAD bytes, bytes read, whether it was read to its end); without `take` nothing more is read."""
    head, size = b"", 0
    while size <= MAX_BODY:
        piece = answer.read(HEAD)
        if not piece:
            return head, size, True
        size += len(piece)
        head += piece[: HEAD - len(head)]
        if take is None:
            break
        take(piece)
    return head, size, False


def _shut(sock: socket.socket | None) -> None:
    try:
        if sock is not None:
            sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed already
