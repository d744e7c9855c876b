"""Servers that misbehave, each on a port of its own, for one connection after the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Behaviour = Callable[[socket.socket, threading.Event], None]


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[tuple[int, list[int]]]:
    """(port, a list with one item for each connection that came)."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    came: list[int] = []

    def run() -> None:
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            came.append(1)
            with connection:
                connection.settimeout(10)
                try:
                    behaviour(connection, over)
                except OSError:
                    continue

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield listener.getsockname()[1], came
    finally:
        over.set()
        thread.join()
        listener.close()


def silent(connection: socket.socket, over: threading.Event) -> None:
    over.wait(20)


def closes(connection: socket.socket, over: threading.Event) -> None:
    connection.recv(65536)


def garbage(connection: socket.socket, over: threading.Event) -> None:
    connection.recv(65536)
    connection.sendall(b"\x00\xff\xfe" * 1000)


def drips(connection: socket.socket, over: threading.Event) -> None:
    while not over.wait(0.02):
        connection.sendall(b"H")


def endless(connection: socket.socket, over: threading.Event) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while not over.is_set():
        connection.sendall(b"x" * 65536)


def short(connection: socket.socket, over: threading.Event) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")


def absurd_length(connection: socket.socket, over: threading.Event) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nx")


def says(reply: bytes) -> Behaviour:
    """Answers with these bytes."""

    def behaviour(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(reply)
        while connection.recv(65536):  # until the other side has had enough
            continue

    return behaviour
