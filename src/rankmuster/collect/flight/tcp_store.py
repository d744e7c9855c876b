"""Reads a few keys of torch's TCPStore, and can do nothing else with it.

Only `start_debug_server` makes this needed: a worker's server listens on a port that it tells the store alone. Asked
are CHECK and GET, never what waits for a key or changes one. The order of the numbers is torch's QueryType
(torch/csrc/distributed/c10d/TCPStoreBackend.hpp), the same in every release that has a debug server (2.10 and later).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable

from rankmuster.collect.deadline import Deadline

_MAGIC = 0x3C85F7CE
_VALIDATE, _GET, _CHECK, _PING = 0, 3, 5, 13
_READY = 0

MAX_VALUE_BYTES = 4096
"""Of one value: an address has some twenty bytes."""


class StoreSilent(Exception):
    """The store did not answer, or not as a TCPStore does. The text says what came back."""


def read_keys(host: str, port: int, keys: Iterable[str], deadline: Deadline) -> dict[str, bytes]:
    """The values of those `keys` that are set. Names are as torch's clients write them, without the leading `/`.

    Resolving the host's name may block beyond the deadline: call it with patience. Raises StoreSilent.
    """
    try:
        with socket.create_connection((host, port), timeout=max(deadline.remaining(), 0.01)) as connection:
            return _Store(connection, deadline).read(keys)
    except TimeoutError as error:
        raise StoreSilent("no answer in time") from error
    except OSError as error:
        raise StoreSilent(error.strerror or str(error)) from error


class _Store:
    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection, self._deadline = connection, deadline

    def read(self, keys: Iterable[str]) -> dict[str, bytes]:
        nonce = os.getpid() & 0xFFFF_FFFF
        self._send(struct.pack("=BI", _VALIDATE, _MAGIC), struct.pack("=BI", _PING, nonce))
        if struct.unpack("=I", self._receive(4))[0] != nonce:
            raise StoreSilent("it does not answer a ping as a TCPStore does")
        found: dict[str, bytes] = {}
        for key in keys:
            name = f"/{key}".encode()
            packed = struct.pack("=Q", len(name)) + name
            # Asking for a key that is not set would make the server wait or fail.
            self._send(struct.pack("=BQ", _CHECK, 1), packed)
            if self._receive(1)[0] != _READY:
                continue
            self._send(struct.pack("=B", _GET), packed)
            (size,) = struct.unpack("=Q", self._receive(8))
            if size > MAX_VALUE_BYTES:
                raise StoreSilent(f"the value of {key} has {size} bytes")
            found[key] = self._receive(size)
        return found

    def _send(self, *parts: bytes) -> None:
        self._limit()
        self._connection.sendall(b"".join(parts))

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self._limit()
            part = self._connection.recv(size - len(data))
            if not part:
                raise StoreSilent("it closed the connection")
            data += part
        return data

    def _limit(self) -> None:
        left = self._deadline.remaining()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
