"""Posts one stop to a server: a process of its own, so that neither a resolver that hangs nor the library for
encryption is the watch's. `python -m rankmuster.watch.respond.webhook`, with a job as JSON on standard input.

A second attempt is made only where the first surely did nothing or was asked to come again: no connection, a status of
5xx, or 429. Exit status: 0 it was taken, 1 it was not, and the last line of standard error says why. No header's value
and no path of the URL is ever printed.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import stat
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urljoin, urlsplit

from rankmuster import __version__
from rankmuster.watch.respond.back_off import back_off

MAX_HEADER_FILE = 64 << 10
"""Bytes of a file of headers: servers take 8 to 32 KiB of them."""

MAX_REDIRECTS = 2


class NotPosted(Exception):
    """It was not taken; the message says why. `again`: whether another attempt may help."""

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again


@dataclass(frozen=True, slots=True)
class Job:
    """`seconds`: of each attempt."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    attempts: int
    seconds: float


def read_headers(path: Path) -> dict[str, str]:
    """Lines `Name: value`; empty ones and those that begin with # are left out. Raises NotPosted."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotPosted(f"the file of headers {path} is no regular file")
            data = file.read(MAX_HEADER_FILE + 1)
    except OSError as error:
        raise NotPosted(f"the file of headers {path} cannot be read ({error.strerror or error})") from error
    if len(data) > MAX_HEADER_FILE:
        raise NotPosted(f"the file of headers {path} has more than {MAX_HEADER_FILE >> 10} KiB")
    found: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        good = colon and name and all(one.isascii() and (one.isalnum() or one in "-_") for one in name)
        if not good or not value.strip().isprintable() or not value.isascii():
            raise NotPosted(f"line {number} of the file of headers {path} is no header (wanted is `Name: value`)")
        found[name] = value.strip()
    return found


def post(job: Job) -> str:
    """What the server said to it. Raises NotPosted after the last attempt."""
    for attempt in range(1, job.attempts + 1):
        try:
            return _attempt(job)
        except NotPosted as error:
            if not error.again or attempt == job.attempts:
                tried = f" ({attempt} attempts)" if attempt > 1 else ""
                raise NotPosted(f"{error}{tried}", again=error.again) from error
        time.sleep(back_off(attempt))
    raise NotPosted("no attempt was wanted")


def _attempt(job: Job) -> str:
    end = time.monotonic() + job.seconds
    url = job.url
    for _ in range(MAX_REDIRECTS + 1):
        parts = _checked(url)
        status, location = _once(parts, job, end)
        if 200 <= status < 300:
            return f"{status}"
        if status not in (307, 308) or location is None:
            # 301, 302 and 303 turn a POST into a GET for most clients: then nothing would have been told.
            raise NotPosted(f"the server answered with status {status}", again=status >= 500 or status == 429)
        wanted = urlsplit(urljoin(url, location))
        if (wanted.scheme, wanted.netloc) != (parts.scheme, parts.netloc):
            raise NotPosted(f"it redirects to another server ({wanted.scheme}://{wanted.hostname}): not followed")
        url = wanted.geturl()
    raise NotPosted(f"it redirects more than {MAX_REDIRECTS} times")


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise NotPosted("the address is no http or https URL with a host")
    if parts.username is not None or parts.password is not None:
        raise NotPosted("the URL holds a user or a password; put an Authorization header into header_file")
    return parts


def _once(parts: SplitResult, job: Job, end: float) -> tuple[int, str | None]:
    left = end - time.monotonic()
    if left <= 0:
        raise NotPosted("there was no time left to follow a redirect")
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPConnection(host, port, timeout=left)
        if parts.scheme == "http"
        else http.client.HTTPSConnection(host, port, timeout=left, context=ssl.create_default_context())
    )
    try:
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise NotPosted(f"the server's certificate is not accepted ({error.verify_message})") from error
        except (OSError, ValueError, UnicodeError) as error:
            why = "no connection in time" if isinstance(error, TimeoutError) else _words(error)
            raise NotPosted(f"no connection could be made ({why})", again=True) from error
        # A server that drips a byte now and then satisfies every time-out of a single read.
        cutter = threading.Timer(max(end - time.monotonic(), 0.01), _shut, (connection.sock,))
        cutter.daemon = True
        cutter.start()
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {
                "Content-Type": "application/json",
                "User-Agent": f"rankmuster/{__version__}",
                "Connection": "close",
                **job.headers,
            }
            connection.request("POST", path, body=job.body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Location")  # what else it says is of no use to anybody
        finally:
            cutter.cancel()
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, TimeoutError) or time.monotonic() >= end:
            raise NotPosted(
                f"it was sent, and no answer came within {job.seconds:.0f} s: perhaps it was taken"
            ) from error
        raise NotPosted(f"the connection broke after it was made ({_words(error)})") from error
    finally:
        connection.close()


def _words(error: BaseException) -> str:
    """Never the message of what may quote a header."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def _shut(sock: socket.socket | None) -> None:
    try:
        if sock is not None:
            sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed already


def main() -> int:
    """Reads the job, posts it, says how that went."""
    raw = json.load(sys.stdin.buffer)
    try:
        headers = read_headers(Path(raw["header_file"])) if raw["header_file"] is not None else {}
        job = Job(raw["url"], headers, raw["body"].encode("ascii"), raw["attempts"], raw["seconds"])
        answered = post(job)
    except NotPosted as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stderr.write(f"the server answered with status {answered}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
