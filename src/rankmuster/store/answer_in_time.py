"""Transactions on PostgreSQL that end by a time, also where the server is stopped or the way to it is cut.

libpq waits without end for an answer, and its own time-outs notice neither a server that is stopped nor a Unix socket.
So the socket is shut from here, which libpq takes for the server's end. Needed where a runbook waits: a fabric that is
broken may well be the way to the database.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DisconnectionError

_GUARD, _USED = "rankmuster_guard", "rankmuster_used"


def answer_in_time(engine: Engine, lock_seconds: float, seconds: float) -> None:
    """`lock_seconds`: for one lock that others hold; `seconds`: from when a connection is taken until it is given
    back. A connection that the server has ended since its last use (a restart) is made again."""
    wait = f"SET LOCAL lock_timeout = {int(lock_seconds * 1000)}"

    @event.listens_for(engine, "checkout")
    def _begin(connection: Any, record: Any, _proxy: Any) -> None:
        guard = record.info[_GUARD] = _Guard(connection.pgconn.socket, seconds)
        if not record.info.get(_USED):
            record.info[_USED] = True
            return
        try:
            connection.execute("SELECT 1")
            connection.rollback()
        except Exception as error:
            guard.end()
            raise DisconnectionError("the server has ended this connection") from error

    @event.listens_for(engine, "checkin")
    def _end(_connection: Any, record: Any) -> None:
        guard = record.info.pop(_GUARD, None)
        if guard is not None:
            guard.end()

    @event.listens_for(engine, "begin")
    def _locks(connection: Connection) -> None:
        connection.exec_driver_sql(wait)


class _Guard:
    """Shuts a socket after `seconds`, unless `end` comes first. Its own descriptor of the socket: what the connection's
    may stand for by then does not matter."""

    def __init__(self, descriptor: int, seconds: float) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._shut)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._socket.close()

    def _shut(self) -> None:
        with self._lock, suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
