"""An API server that answers by a script, over real sockets: for what a good one never does."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rankmuster.adapters.kube.calling import Told
from rankmuster.adapters.kube.client import Client
from rankmuster.adapters.kube.connecting import Credentials
from rankmuster.adapters.kube.retrying import Pace
from rankmuster.collect.deadline import Deadline

Answer = Callable[[socket.socket, bytes], None]
"""Gets the connection and the request's bytes; what it leaves open is closed after it."""


def says(status: int, value: Any, **headers: str) -> Answer:
    """A whole answer of JSON (or of bytes as they are), connection kept."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return lambda sock, _: sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def status_of(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    value = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
    return {**value, "code": code, "details": details}


def bytes_of(data: bytes) -> Answer:
    """These bytes, and the end of the connection."""

    def answer(sock: socket.socket, _: bytes) -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_RDWR)

    return answer


def silence(sock: socket.socket, _: bytes) -> None:
    """Nothing, until the client goes."""
    while sock.recv(65536):
        pass


def drips(head: bytes) -> Answer:
    """A byte now and then, for ever: no single read ever waits long."""

    def answer(sock: socket.socket, _: bytes) -> None:
        sock.sendall(head)
        while True:
            sock.sendall(b" ")
            time.sleep(0.02)

    return answer


def frame(channel: int, data: bytes, *, opcode: int = 2) -> bytes:
    """One websocket frame of a server."""
    load = bytes([channel]) + data if opcode in (1, 2) else data
    size = bytes([len(load)]) if len(load) < 126 else b"\x7e" + struct.pack(">H", len(load))
    return bytes([0x80 | opcode]) + size + load


def upgrades(*frames: bytes, then: Answer | None = None) -> Answer:
    """A websocket that says these frames, and `then` does what it likes (None: it closes)."""

    def answer(sock: socket.socket, request: bytes) -> None:
        key = next(x.split(b": ")[1] for x in request.split(b"\r\n") if x.lower().startswith(b"sec-websocket-key"))
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        head = b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept
        sock.sendall(head + b"\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n" + b"".join(frames))
        if then is not None:
            then(sock, request)
        sock.shutdown(socket.SHUT_RDWR)

    return answer


class OddServer:
    """Answers the n-th request by the n-th of `script`, the last one for all that follow."""

    def __init__(self, *script: Answer) -> None:
        self.script = list(script)
        self.requests: list[bytes] = []
        self.over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self.over.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with suppress(OSError):
            while request := _request(sock):
                self.requests.append(request)
                self.script[min(len(self.requests), len(self.script)) - 1](sock, request)

    def close(self) -> None:
        self.over.set()
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _request(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")), 0)
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


def body_of(request: bytes) -> Any:
    return json.loads(request.partition(b"\r\n\r\n")[2])


def client_of(url: str, *, told: Told | None = None, pauses: list[float] | None = None, **pace: Any) -> Client:
    """Whose pauses are written down and not waited for."""
    from kubernetes.client import Configuration  # type: ignore[import-untyped]

    def load() -> Any:
        configuration = Configuration(host=url)
        configuration.api_key["BearerToken"] = "Bearer s3cret"
        configuration.api_key["authorization"] = "Bearer s3cret"  # before version 36
        return configuration

    given = {"sleep": (pauses if pauses is not None else []).append, "jitter": lambda: 1.0, **pace}
    return Client(Credentials(load, Deadline.after(10)), told=told, pace=Pace(**given))


@contextmanager
def odd(*script: Answer) -> Iterator[OddServer]:
    server = OddServer(*script)
    try:
        yield server
    finally:
        server.close()


def kubeconfig(folder: Path, url: str, user: dict[str, Any]) -> Path:
    """A kubeconfig file with one context."""
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(value))
    return path
