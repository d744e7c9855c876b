"""A command in a container over a websocket (v5.channel.k8s.io, v4 before Kubernetes 1.30).

Every frame begins with a channel: 1 output, 2 errors, 3 the Status at the end, from which the exit status is read. A
server that goes silent, or sends a byte now and then, is cut off at the deadline; the command may go on then.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rankmuster.adapters.connect import NotConnected, connect, shut, words
from rankmuster.adapters.kube.answers import error_of
from rankmuster.adapters.kube.api import KubeError, Ran
from rankmuster.adapters.kube.wire import Raw
from rankmuster.collect.deadline import Deadline

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
OUTPUT, ERRORS, ENDED = 1, 2, 3

MOST_ERRORS = 64 << 10
"""Bytes of standard error that are kept: its end."""

MOST_STATUS = 64 << 10


@dataclass(frozen=True, slots=True)
class Asked:
    """`words`: what of whom, for messages. `path`: with its query. `authorization` is in no message."""

    words: str
    path: str
    authorization: str | None = field(repr=False)
    agent: str
    configuration: Any = field(repr=False)


def execute(asked: Asked, deadline: Deadline, *, most_bytes: int, write: Callable[[bytes], Any] | None = None) -> Ran:
    """Raises KubeError: refused, lost (maybe), late, or more than `most_bytes`. What `write` raises goes through."""
    if deadline.passed:
        raise KubeError(f"{asked.words}: there was no time left to ask", late=True)
    stream = _Stream(asked, deadline)
    try:
        stream.open()
        return _read(stream, asked, most_bytes, write)
    finally:
        stream.close()


class _Stream:
    """The websocket, with a timer that cuts it."""

    def __init__(self, asked: Asked, deadline: Deadline) -> None:
        self._asked, self._deadline = asked, deadline
        self._sock: Any = None
        self._websocket: Any = None
        self._timer = threading.Timer(max(deadline.remaining(), 0.001), self._cut)
        self._timer.daemon = True
        self._timer.start()

    def open(self) -> None:
        import websocket

        asked, configuration = self._asked, self._asked.configuration
        parts = urlsplit(str(configuration.host))
        secure = parts.scheme == "https"
        header = [f"User-Agent: {asked.agent}"]
        if asked.authorization is not None:
            header.append(f"Authorization: {asked.authorization}")
        options: dict[str, Any] = {}
        if _proxied(configuration):
            options = _proxy(configuration)
        else:
            self._sock = options["socket"] = self._connected(parts.hostname or "", parts.port, secure)
        tls = {"context": _context(configuration), **_named(configuration)} if secure else None
        self._websocket = websocket.WebSocket(sslopt=tls)
        url = f"{'wss' if secure else 'ws'}://{parts.netloc}{parts.path.rstrip('/')}{asked.path}"
        try:
            self._websocket.connect(
                url,
                header=header,
                subprotocols=list(PROTOCOLS),
                timeout=max(self._deadline.remaining(), 0.001),
                redirect_limit=0,
                suppress_origin=True,
                **options,
            )
            self._sock = self._websocket.sock
        except websocket.WebSocketBadStatusException as error:
            status = int(error.status_code)
            body = getattr(error, "resp_body", None)
            raise error_of(Raw(status, {}, body if isinstance(body, bytes) else b""), asked.words) from error
        except (websocket.WebSocketException, OSError, ValueError) as error:
            raise self._lost(error, "no exec was opened") from error

    def _connected(self, host: str, port: int | None, secure: bool) -> Any:
        try:
            self._sock = connect(host, port or (443 if secure else 80), self._deadline)
            if secure:
                configuration = self._asked.configuration
                named = getattr(configuration, "tls_server_name", None) or host
                self._sock = _context(configuration).wrap_socket(
                    self._sock, server_hostname=named, do_handshake_on_connect=False
                )
                self._sock.do_handshake()
            return self._sock
        except ssl.SSLCertVerificationError as error:
            raise KubeError(f"{self._asked.words}: its certificate is not accepted ({error.verify_message})") from error
        except (NotConnected, OSError, ValueError) as error:
            why = str(error) if isinstance(error, NotConnected) else words(error)
            late = self._deadline.passed
            raise KubeError(f"{self._asked.words}: no connection could be made ({why})", late=late) from error

    def frame(self) -> bytes | None:
        """The next one's bytes, None at the end of the stream. Raises KubeError."""
        import websocket

        try:
            self._websocket.settimeout(max(self._deadline.remaining(), 0.001))
            opcode, frame = self._websocket.recv_data_frame(False)
            if self._deadline.passed:
                raise TimeoutError
            return None if opcode == websocket.ABNF.OPCODE_CLOSE else bytes(frame.data)
        except websocket.WebSocketConnectionClosedException as error:
            if self._deadline.passed:
                raise self._lost(error, "it did not end") from error
            return None
        except (websocket.WebSocketException, OSError, ValueError) as error:
            raise self._lost(error, "it broke off") from error

    def _lost(self, error: BaseException, what: str) -> KubeError:
        if self._deadline.passed or isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
            return KubeError(f"{self._asked.words}: the command did not end in time", late=True, maybe=True)
        return KubeError(f"{self._asked.words}: {what} ({words(error)})", maybe=True)

    def _cut(self) -> None:
        shut(self._sock if self._websocket is None else getattr(self._websocket, "sock", None) or self._sock)

    def close(self) -> None:
        self._timer.cancel()
        for one in (getattr(self._websocket, "sock", None), self._sock):
            if one is not None:
                one.close()


def _read(stream: _Stream, asked: Asked, most_bytes: int, write: Callable[[bytes], Any] | None) -> Ran:
    kept: list[bytes] = []
    errors, status = b"", b""
    size = 0
    while (frame := stream.frame()) is not None:
        channel, data = frame[:1], frame[1:]
        if channel == bytes([OUTPUT]):
            size += len(data)
            if size > most_bytes:
                raise KubeError(f"{asked.words}: the command wrote more than {most_bytes} bytes", maybe=True)
            if write is None:
                kept.append(data)
            else:
                write(data)
        elif channel == bytes([ERRORS]):
            errors = (errors + data)[-MOST_ERRORS:]
        elif channel == bytes([ENDED]):
            status = (status + data)[:MOST_STATUS]
            if _complete(status):
                break  # some servers leave the connection open
    ended, problem = _exit_status(status)
    text = errors.decode("utf-8", "replace")
    if problem:
        raise KubeError(f"{asked.words}: {problem}", maybe=True)
    return Ran(ended, b"".join(kept), text)


def _complete(status: bytes) -> bool:
    try:
        return isinstance(json.loads(status), dict)
    except (ValueError, RecursionError):
        return False


def _exit_status(status: bytes) -> tuple[int | None, str]:
    """(exit status, why there is none). A stream that ends without a Status has not told: (None, "")."""
    try:
        value = json.loads(status) if status else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return None, ""
    if value.get("status") == "Success":
        return 0, ""
    details = value.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for one in causes if isinstance(causes, list) else []:
        if isinstance(one, dict) and one.get("reason") == "ExitCode":
            text = str(one.get("message", ""))
            if text.isascii() and text.isdigit():
                return int(text[:9]), ""
    said = " ".join(str(value.get("message") or "no reason was given").split())[:300]
    return None, f"the command could not be run: {said}"


def _context(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    if not configuration.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif configuration.assert_hostname is False:
        context.check_hostname = False
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    return context


def _named(configuration: Any) -> dict[str, str]:
    named = getattr(configuration, "tls_server_name", None)
    return {"server_hostname": named} if named else {}


def _proxied(configuration: Any) -> bool:
    if not configuration.proxy:
        return False
    from requests.utils import should_bypass_proxies

    return not should_bypass_proxies(str(configuration.host), no_proxy=configuration.no_proxy or "")


def _proxy(configuration: Any) -> dict[str, Any]:
    parts = urlsplit(str(configuration.proxy))
    auth = (parts.username, parts.password or "") if parts.username else None
    return {"http_proxy_host": parts.hostname, "http_proxy_port": parts.port or 80, "http_proxy_auth": auth}
