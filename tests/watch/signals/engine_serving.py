"""Servers for tests: real sockets that answer as they are told, and signals that look at them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rankmuster.collect.deadline import Deadline
from rankmuster.model.engine import EnginePage
from rankmuster.watch.config import Mapping
from rankmuster.watch.signals.engine import EngineSignal
from rankmuster.watch.signals.signal import Counted, Declined, Failed, Heard, Said

Answer = Callable[[socket.socket, bytes, int], None]
"""Connection, request, how many requests there were with this one."""


def reply(body: str | bytes, status: str = "200 OK", *headers: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def always(body: str | bytes, status: str = "200 OK", *headers: str) -> Answer:
    return lambda connection, request, count: connection.sendall(reply(body, status, *headers))


def raw(answer: bytes) -> Answer:
    return lambda connection, request, count: connection.sendall(answer)


def silent(connection: socket.socket, request: bytes, count: int) -> None:
    while connection.recv(1024):
        pass


def dripping(connection: socket.socket, request: bytes, count: int) -> None:
    for byte in reply("vllm:num_requests_running 1.0\n" * 50):
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


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


def signal(*servers: str | tuple[str, ...], mappings: tuple[Mapping, ...] = (), **more: object) -> EngineSignal:
    """A signal of these servers, impatient."""
    grouped = [(server,) if isinstance(server, str) else server for server in servers]
    settings: dict[str, object] = {"page_seconds": 0.4, **more}
    return EngineSignal(grouped, mappings, clock=time.monotonic, unix_now=time.time, **settings)  # type: ignore[arg-type]


def poll(of: EngineSignal, seconds: float = 5.0) -> list[Said]:
    return of.poll(Deadline.after(seconds))


def pages(said: list[Said]) -> list[EnginePage]:
    return [one.observation for one in said if isinstance(one, Heard) and isinstance(one.observation, EnginePage)]


def only(said: list[Said]) -> EnginePage:
    (page,) = pages(said)
    return page


def failure(said: list[Said]) -> str:
    (one,) = said
    assert isinstance(one, Failed), said
    return one.reason


def refusal(said: list[Said]) -> str:
    (one,) = [one for one in said if isinstance(one, Declined)]
    return one.reason


def counted(said: list[Said]) -> list[Counted]:
    return [one for one in said if isinstance(one, Counted)]
