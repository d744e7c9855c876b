"""The two pods of a pair wait for each other before their time begins to count: an image may take minutes to pull on
one node and be there on the other, and a peer that has not started yet is no peer that hangs.

Place 0 listens, place 1 comes; each says one byte. Nothing else is sent, and nothing is believed of it.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

from rankmuster.collect.deadline import Deadline

PAUSE = 1.0
"""Seconds between two attempts: the cluster's DNS knows a pod some seconds after it has started."""

TRY_SECONDS = 5.0


class NotMet(Exception):
    """The other pod did not come; the message says what was tried."""


def meet(place: int, address: str, port: int, deadline: Deadline, sleep: Callable[[float], None] = time.sleep) -> None:
    """Returns once both are there. `address`: of place 0. Raises NotMet."""
    if place == 0:
        _wait_for_peer(port, deadline)
    else:
        _go_to(address, port, deadline, sleep)


def _wait_for_peer(port: int, deadline: Deadline) -> None:
    try:
        with socket.create_server(("", port), reuse_port=False) as server:
            while not deadline.passed:
                server.settimeout(max(min(deadline.remaining(), TRY_SECONDS), 0.01))
                with contextlib.suppress(OSError):
                    peer, _ = server.accept()
                    with peer:
                        peer.settimeout(TRY_SECONDS)
                        peer.sendall(b"1")
                        if peer.recv(1) == b"1":
                            return
    except OSError as error:
        raise NotMet(f"port {port} cannot be listened on ({error.strerror or error})") from error
    raise NotMet(f"the other pod did not come to port {port}: it has not started, or the network keeps them apart")


def _go_to(address: str, port: int, deadline: Deadline, sleep: Callable[[float], None]) -> None:
    last = "it was not tried"
    while not deadline.passed:
        try:
            limit = max(min(deadline.remaining(), TRY_SECONDS), 0.01)
            with socket.create_connection((address, port), limit) as peer:
                peer.settimeout(TRY_SECONDS)
                if peer.recv(1) == b"1":
                    peer.sendall(b"1")
                    return
                last = "it closed the connection"
        except OSError as error:
            last = error.strerror or str(error)
        sleep(min(PAUSE, deadline.remaining()))
    raise NotMet(f"{address}:{port}, the first pod of the pair, was not reached: {last}")
