"""The control socket: who may ask, how much, how long; a thread a caller, so that one can look while another ends."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rankmuster.adapters import supervisor_wire as wire
from rankmuster.collect.deadline import Deadline

MAX_CALLERS = 32
"""At once: one runner, some people. More are told so at once."""

REQUEST_SECONDS = 5.0
"""For a caller to say what it wants, and to take the answer."""

Handle = Callable[[dict[str, Any]], Mapping[str, Any]]


def peer_uid(connection: socket.socket) -> int:
    """The user of the process at the other end, as the kernel has it from the moment of its connect."""
    size = struct.calcsize("3i")
    return int(struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1])


class Control:
    """Listens as soon as it is made, and answers with `handle`, in other threads. A stale socket is replaced: whoever
    makes this holds the lock of the name. Raises OSError."""

    def __init__(
        self,
        path: Path,
        handle: Handle,
        *,
        uid_of: Callable[[socket.socket], int] = peer_uid,
        own_uid: int | None = None,
    ) -> None:
        self._path = path
        self._handle = handle
        self._uid_of = uid_of
        self._own = os.geteuid() if own_uid is None else own_uid
        self._free = threading.Semaphore(MAX_CALLERS)
        self._closed = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            before = os.umask(0o177)
            try:
                self._socket.bind(os.fspath(path))
            finally:
                os.umask(before)
            self._socket.listen(MAX_CALLERS)
        except OSError:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._accept, name="control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nobody is answered any more."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._closed.is_set():
                    return
                self._closed.wait(0.1)  # no descriptor left: whoever has them may give some back
                continue
            if not self._free.acquire(blocking=False):
                _refuse(connection, f"{MAX_CALLERS} ask at once already; ask again")
                continue
            try:
                threading.Thread(target=self._serve, args=(connection,), name="caller", daemon=True).start()
            except RuntimeError:  # the limit on threads: one after the other then
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                connection.settimeout(REQUEST_SECONDS)
                uid = self._uid_of(connection)
                if uid not in (0, self._own):
                    _refuse(connection, f"user {uid} may not ask; user {self._own} and root may")
                    return
                try:
                    answer = self._handle(wire.decode(_line(connection)))
                except wire.NotUnderstood as error:
                    answer = {"error": f"the request is not understood: {error}"}
                except Exception as error:  # a caller's request must never end the supervisor
                    answer = {"error": f"internal error: {type(error).__name__}: {error}"[:500]}
                connection.settimeout(REQUEST_SECONDS)
                connection.sendall(wire.encode(answer))
        finally:
            self._free.release()


def _line(connection: socket.socket) -> bytes:
    """Raises NotUnderstood, OSError."""
    deadline = Deadline.after(REQUEST_SECONDS)
    data = bytearray()
    while b"\n" not in data:
        if len(data) > wire.MAX_REQUEST:
            raise wire.NotUnderstood(f"it has more than {wire.MAX_REQUEST} bytes")
        connection.settimeout(max(deadline.remaining(), 0.001))
        piece = connection.recv(1 << 16)
        if not piece:
            raise wire.NotUnderstood("it ends before its line does")
        data += piece
    return bytes(data[: data.index(b"\n")])


def _refuse(connection: socket.socket, why: str) -> None:
    with connection, contextlib.suppress(OSError):
        connection.settimeout(1.0)
        connection.recv(1 << 16)  # one that is closed with something unread loses what it was told
        connection.sendall(wire.encode({"error": why}))
