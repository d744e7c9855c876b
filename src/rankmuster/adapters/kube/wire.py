"""One HTTP exchange with an API server over the official client's pool of connections, with an end.

urllib3's time-outs count for each read: a server that drips a byte now and then satisfies all of them. So a timer cuts
the connection that is used, and names are resolved where it can be left behind (`adapters.connect`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankmuster.adapters.connect import NotConnected, connect, shut, words
from rankmuster.adapters.kube.connecting import Credentials
from rankmuster.collect.deadline import Deadline

PIECE = 64 << 10


class Lost(Exception):
    """No whole answer came; the message says why. `sent`: whether the server may have got the request. `late`: the
    deadline of the attempt passed."""

    def __init__(self, message: str, *, sent: bool, late: bool = False) -> None:
        super().__init__(message)
        self.sent, self.late = sent, late


@dataclass(frozen=True, slots=True)
class Raw:
    """`headers`: with names in small letters. `cut`: there was more than was allowed."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool = False


@dataclass(slots=True)
class _Attempt:
    deadline: Deadline
    sock: Any = None

    def cut(self) -> None:
        shut(self.sock)


class _Now(threading.local):
    """The attempt that this thread makes."""

    attempt: _Attempt | None = None


class Wire:
    """Thread-safe. The pool is made anew where the configuration was read anew."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._now = _Now()
        self._lock = threading.Lock()
        self._pool: Any = None
        self._generation = 0

    def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline: Deadline,
        *,
        most: int,
        tail: bool = False,
    ) -> Raw:
        """The answer, whatever its status. Raises Lost. `tail`: the last `most` bytes instead of the first."""
        import urllib3

        if deadline.passed:
            raise Lost("there was no time left to ask", sent=False, late=True)
        pool = self._current()
        attempt = self._now.attempt = _Attempt(deadline)
        timer = threading.Timer(max(deadline.remaining(), 0.001), attempt.cut)
        timer.daemon = True
        timer.start()
        url = str(self._credentials.configuration.host).rstrip("/") + path
        answer: Any = None
        done = False
        try:
            answer = pool.urlopen(
                method,
                url,
                body=body,
                headers=dict(headers),
                timeout=urllib3.Timeout(
                    connect=max(deadline.remaining(), 0.001), read=max(deadline.remaining(), 0.001)
                ),
                retries=False,
                redirect=False,
                preload_content=False,
                enforce_content_length=True,
            )
            data, cut = _read(answer, most, tail)
            if deadline.passed:  # also where the cut made it look like the end of the answer
                raise TimeoutError
            done = not cut or tail
            return Raw(int(answer.status), {k.lower(): v for k, v in answer.headers.items()}, data, cut)
        except (NotConnected, urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            raise Lost(f"no connection could be made ({_why(error)})", sent=False, late=deadline.passed) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            if _is_certificate(error):
                raise Lost(f"its certificate is not accepted ({_why(error)})", sent=False) from error
            if deadline.passed or isinstance(error, (TimeoutError, urllib3.exceptions.TimeoutError)):
                what = "no answer came" if answer is None else f"its answer (status {answer.status}) did not end"
                raise Lost(f"{what} in time", sent=True, late=True) from error
            what = "the connection broke" if answer is None else f"its answer (status {answer.status}) broke off"
            raise Lost(f"{what} ({_why(error)})", sent=True) from error
        finally:
            timer.cancel()
            self._now.attempt = attempt.sock = None
            if answer is not None and not done:
                answer.close()

    def _current(self) -> Any:
        with self._lock:
            if self._pool is None or self._generation != self._credentials.generation:
                self._generation = self._credentials.generation
                self._pool = _pool(self._credentials.configuration, self._now)
            return self._pool

    def close(self) -> None:
        """Ends idle connections."""
        with self._lock:
            if self._pool is not None:
                self._pool.clear()
                self._pool = None


def _read(answer: Any, most: int, tail: bool) -> tuple[bytes, bool]:
    pieces: list[bytes] = []
    kept, cut = 0, False
    while piece := answer.read(min(PIECE, most + 1)):
        pieces.append(piece)
        kept += len(piece)
        if kept > most and not tail:
            return b"".join(pieces)[:most], True
        while tail and kept - len(pieces[0]) >= most:
            kept -= len(pieces.pop(0))
            cut = True
    data = b"".join(pieces)
    if tail and len(data) > most:
        return data[len(data) - most :], True
    return data, cut


def _is_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if type(error).__name__ == "SSLCertVerificationError":
            return True
        error = error.__cause__ or error.__context__
    return False


def _why(error: BaseException) -> str:
    """In few words, and never with a URL or a header."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, NotConnected):
            return str(seen)
        if isinstance(seen, OSError) and seen.strerror:
            verified = getattr(seen, "verify_message", "")
            return str(verified or seen.strerror)
        seen = seen.__cause__ or seen.__context__
    return words(error)


def _pool(configuration: Any, now: _Now) -> Any:
    """The official client's pool (proxy, certificates, server name), with connections that can be cut."""
    import urllib3
    from kubernetes.client.rest import RESTClientObject  # type: ignore[import-untyped]

    class Plain(urllib3.HTTPConnectionPool):
        ConnectionCls = _cuttable(urllib3.connection.HTTPConnection, now)

    class Secure(urllib3.HTTPSConnectionPool):
        ConnectionCls = _cuttable(urllib3.connection.HTTPSConnection, now)

    manager = RESTClientObject(configuration).pool_manager
    manager.pool_classes_by_scheme = {"http": Plain, "https": Secure}
    return manager


def _cuttable(base: Any, now: _Now) -> Any:
    # The socket is noted in each of its forms: an answer that ends with its connection takes it from the connection.
    def note(sock: Any) -> None:
        if now.attempt is not None:
            now.attempt.sock = sock

    class Connection(base):  # type: ignore[misc]  # urllib3's, of either scheme
        def connect(self) -> None:
            super().connect()
            note(self.sock)

        def request(self, *args: Any, **kwargs: Any) -> Any:
            note(self.sock)
            return super().request(*args, **kwargs)

        def _new_conn(self) -> Any:
            import urllib3

            assert now.attempt is not None
            try:
                sock = connect(self._dns_host, self.port, now.attempt.deadline)
            except NotConnected as error:
                raise urllib3.exceptions.NewConnectionError(self, str(error)) from error
            for option in self.socket_options or ():
                sock.setsockopt(*option)
            note(sock)
            return sock

    return Connection
