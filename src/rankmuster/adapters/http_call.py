"""One HTTP call with an end: no proxy, no credentials in the URL, no redirect to another server, a bounded answer.

Whatever the server does, `call` returns or raises by its deadline: also while a name is resolved, during the TLS
handshake, and for a server that drips a byte now and then. No header's value and no path of a URL is in any message.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import SplitResult, urljoin, urlsplit

from rankmuster import __version__
from rankmuster.adapters.connect import NotConnected, connect, shut, words
from rankmuster.collect.deadline import Deadline

MAX_BODY = 4 << 20
"""Bytes of one answer: a router's list of 1,000 workers has 350 KiB."""

MAX_REDIRECTS = 2

PIECE = 256 << 10
"""Bytes that are handed on at a time, of an answer that is not kept."""


class NotCalled(Exception):
    """No whole answer came; the message says why. `again`: whether the server surely did nothing, so that another
    attempt does no harm. `status`: of an answer that began and did not come to its end."""

    def __init__(self, message: str, *, again: bool = False, status: int | None = None) -> None:
        super().__init__(message)
        self.again = again
        self.status = status


@dataclass(frozen=True, slots=True)
class Reply:
    """`body`: at most what was allowed of it; `cut`: whether there was more. `headers`: by their names in lower case.

    `size`: bytes that came, also where they were handed on and not kept.
    """

    status: int
    body: bytes
    cut: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    size: int = 0

    @property
    def good(self) -> bool:
        """A status of 2xx."""
        return 200 <= self.status < 300

    def text(self) -> str:
        """The body, whatever it is."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body's value. Raises ValueError where it is no JSON (RecursionError is one too)."""
        if self.cut:
            raise ValueError("it is longer than what is read of an answer")
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error


def server_of(url: str) -> str:
    """Scheme, host and port: what may be shown of a URL. Paths and queries are often secrets themselves."""
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
        return f"{parts.scheme}://{host or '?'}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return "no URL"


def call(
    method: str,
    url: str,
    deadline: Deadline,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | IO[bytes] | None = None,
    most: int = MAX_BODY,
    write: Callable[[bytes], object] | None = None,
) -> Reply:
    """The answer, whatever its status. Raises NotCalled. `most`: bytes of it that are read; 0: only its status.

    `write`: gets each piece of a good answer's body (2xx), which is not kept then; what it raises is let through, but
    for an OSError, which becomes a NotCalled. An open file as `body` needs a Content-Length among the headers.

    A redirect is followed on the same server only: 307 and 308 for every method, the others for GET alone, since they
    turn a POST into a GET for most clients, and then nothing would have been told.
    """
    follow = (301, 302, 303, 307, 308) if method == "GET" else (307, 308)
    for _ in range(MAX_REDIRECTS + 1):
        parts = _checked(url)
        reply, location = _once(method, parts, deadline, headers or {}, body, most, write)
        if reply.status not in follow or location is None:
            return reply
        try:
            wanted = urlsplit(urljoin(url, location))
            host = wanted.hostname
        except ValueError as error:
            raise NotCalled("it redirects to what is no URL: not followed") from error
        if (wanted.scheme, wanted.netloc) != (parts.scheme, parts.netloc):
            raise NotCalled(f"it redirects to another server ({wanted.scheme}://{host}): not followed")
        url = wanted.geturl()
    raise NotCalled(f"it redirects more than {MAX_REDIRECTS} times")


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise NotCalled("the address is no http or https URL with a host")
    if parts.username is not None or parts.password is not None:
        raise NotCalled("the URL holds a user or a password; put an Authorization header into header_file")
    return parts


class _Used:
    """The socket that is used now, so that a timer can end it: a server that drips satisfies every single time-out."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self.sock = sock
        self._timer = threading.Timer(max(deadline.remaining(), 0.001), self._cut)
        self._timer.daemon = True
        self._timer.start()

    def _cut(self) -> None:
        shut(self.sock)

    def close(self) -> None:
        """No more to cut."""
        self._timer.cancel()
        self.sock.close()


def _once(
    method: str,
    parts: SplitResult,
    deadline: Deadline,
    headers: Mapping[str, str],
    body: bytes | IO[bytes] | None,
    most: int,
    write: Callable[[bytes], object] | None,
) -> tuple[Reply, str | None]:
    if deadline.passed:
        raise NotCalled("there was no time left to ask")
    host, secure = parts.hostname or "", parts.scheme == "https"
    allowed = deadline.remaining()
    try:
        used = _Used(connect(host, parts.port or (443 if secure else 80), deadline), deadline)
    except NotConnected as error:
        raise NotCalled(f"no connection could be made ({error})", again=True) from error
    status: int | None = None
    answer: http.client.HTTPResponse | None = None
    try:
        if secure:
            _encrypt(used, host)
        connection = http.client.HTTPConnection(host, parts.port or (443 if secure else 80))
        connection.default_port = 443 if secure else 80
        connection.sock = used.sock
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        own = {"User-Agent": f"rankmuster/{__version__}", "Connection": "close", "Accept-Encoding": "identity"}
        if body is not None:
            own["Content-Type"] = "application/json"
        connection.request(method, path, body=body, headers={**own, **headers})
        answer = connection.getresponse()
        status = answer.status
        if write is not None and 200 <= status < 300:
            data, size = b"", _hand_on(answer, write, most)
        else:
            data = answer.read(most + 1) if most else b""
            size = len(data)
        if deadline.passed:  # also where the cut made it look like the end of the answer
            raise TimeoutError
        if most and answer.length and size <= most:
            raise http.client.IncompleteRead(data, answer.length)
        said = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(status, data[:most], size > most, said, min(size, most)), answer.getheader("Location")
    except NotCalled:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, TimeoutError) or deadline.passed:
            when = f"within {allowed:.0f} s" if allowed >= 1 else "in time"
            what = "no answer came" if status is None else f"its answer (status {status}) did not end"
            raise NotCalled(f"it was sent, and {what} {when}: perhaps it was taken", status=status) from error
        what = "the connection broke after it was made" if status is None else f"the answer (status {status}) broke off"
        raise NotCalled(f"{what} ({words(error)})", status=status) from error
    finally:
        if answer is not None:
            answer.close()  # it holds the socket open while something of it was not read
        used.close()


def _hand_on(answer: http.client.HTTPResponse, write: Callable[[bytes], object], most: int) -> int:
    """How many bytes came: one more than `most` where there were more, which are not handed on."""
    size = 0
    while size <= most and (piece := answer.read(min(PIECE, most + 1 - size))):
        write(piece[: most - size])
        size += len(piece)
    return size


def _encrypt(used: _Used, host: str) -> None:
    import ssl  # OpenSSL, 5 MB: for those who speak https

    try:
        secure = ssl.create_default_context().wrap_socket(
            used.sock, server_hostname=host, do_handshake_on_connect=False
        )
        used.sock = secure
        secure.do_handshake()
    except ssl.SSLCertVerificationError as error:
        raise NotCalled(f"the server's certificate is not accepted ({error.verify_message})") from error
    except (OSError, ValueError) as error:
        why = "no connection in time" if isinstance(error, TimeoutError) else words(error)
        raise NotCalled(f"no connection could be made ({why})", again=True) from error
