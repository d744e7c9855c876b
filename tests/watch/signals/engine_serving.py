"""Servers for tests: real sockets that answer as they are told, and signals that look at them."""

from __future__ import annotations

import socket
import time

from page_server import Answer, reply
from rankmuster.collect.deadline import Deadline
from rankmuster.model.engine import EnginePage
from rankmuster.watch.config import Mapping
from rankmuster.watch.signals.engine import EngineSignal
from rankmuster.watch.signals.signal import Counted, Declined, Failed, Heard, Said


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
