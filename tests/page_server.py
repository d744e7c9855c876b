"""A server for tests of whoever asks one: a real socket, whose answers are as they are told, broken ones too."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

Answer = Callable[[socket.socket, bytes, int], None]
"""Connection, request, how many requests there were with this one."""


def reply(body: str | bytes, status: str = "200 OK", *headers: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


@contextmanager
def serving(
    answer: Answer, *, host: str = "127.0.0.1", port: int = 0, requests: list[bytes] | None = None
) -> Iterator[str]:
    """A server that reads each request and leaves the rest to `answer`. Gives its address, without a path."""
    stop = threading.Event()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((host, port), family=family))
        listener.settimeout(0.05)
        threads: list[threading.Thread] = []

        def handle(connection: socket.socket, count: int) -> None:
            with connection:
                connection.settimeout(5)
                try:
                    request = connection.recv(65536)
                    if requests is not None:
                        requests.append(request)
                    answer(connection, request, count)
                except OSError:
                    pass  # the client had enough

        def accept() -> None:
            count = 0
            while not stop.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                count += 1
                threads.append(threading.Thread(target=handle, args=(connection, count)))
                threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            name = f"[{host}]" if ":" in host else host
            yield f"http://{name}:{listener.getsockname()[1]}"
        finally:
            stop.set()
            accepting.join()
            for thread in threads:
                thread.join()
