"""The clients of a drilled incident tell a full answer, an error that says so, and a loss apart."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from drill_helpers import until

from rankmuster.drill.incident_gateway import Gateway, NoGateway
from rankmuster.drill.incident_load import How, Load, ask

needs_haproxy = pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")

Answer = Callable[[socket.socket], None]


@contextmanager
def server(answer: Answer) -> Iterator[tuple[str, int]]:
    """Takes one request after the other, and does with each connection what `answer` does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    healthy = connection.recv(65536).startswith(b"GET /health")
                    (said(whole("")) if healthy else answer)(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[:2]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def said(data: bytes) -> Answer:
    return lambda connection: connection.sendall(data)


def token(text: str, number: int = 3) -> str:
    return json.dumps({"system_fingerprint": f"incarnation-{number}", "choices": [{"text": text}]})


def whole(body: str, status: str = "200 OK", *more: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*head, "", body]).encode()


def chunks(*parts: str, end: bool = True) -> bytes:
    data = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    data += "".join(f"{len(part):x}\r\n{part}\r\n" for part in parts) + ("0\r\n\r\n" if end else "")
    return data.encode()


def event(text: str) -> str:
    return f"data: {token(text)}\n\n"


@pytest.mark.parametrize(
    ("data", "how"),
    [
        (whole(token(" yes yes")), How.FULL),
        (whole(token(" yes")), How.LOST),  # looks whole, and is not
        (whole(token(" yes no")), How.LOST),
        (whole("{}"), How.LOST),
        (whole("busy", "503 Service Unavailable", "Retry-After: 1"), How.TURNED),
        (whole("busy", "503 Service Unavailable"), How.FAILED),
        (whole("busy", "502 Bad Gateway"), How.FAILED),
        (whole(token(" yes yes"))[:-5], How.BROKEN),
        (b"", How.BROKEN),
    ],
)
def test_an_answer_at_once(data: bytes, how: How) -> None:
    with server(said(data)) as address:
        found = ask(address, "a", 2, stream=False, seconds=5)
    assert found.how is how
    if how is How.TURNED:
        assert found.retry_after == 1.0
    if how is How.FULL:
        assert (found.incarnation, found.tokens) == (3, 2)
        assert found.first_at is not None


@pytest.mark.parametrize(
    ("data", "how"),
    [
        (chunks(event(" yes"), event(" yes"), "data: [DONE]\n\n"), How.FULL),
        (chunks(event(" yes"), "data: [DONE]\n\n"), How.LOST),
        (chunks(event(" yes"), event(" yes"), end=False), How.BROKEN),
        (chunks(event(" yes"), end=True), How.BROKEN),  # ended well as HTTP has it, and not as a stream has it
        (chunks(event(" yes"), "data: gibberish\n\n"), How.LOST),
    ],
)
def test_a_stream(data: bytes, how: How) -> None:
    with server(said(data)) as address:
        assert ask(address, "a", 2, stream=True, seconds=5).how is how


@pytest.mark.parametrize("stream", [True, False])
def test_no_answer_in_time_is_lost(stream: bool) -> None:
    over = threading.Event()
    with server(lambda _: over.wait(20) and None) as address:
        found = ask(address, "a", 2, stream=stream, seconds=0.2)
        over.set()
    assert found.how is How.LOST
    assert "no answer within" in found.note


def test_nobody_there_is_an_error_that_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        address = one.getsockname()[:2]
    assert ask(address, "a", 2, stream=False, seconds=5).how is How.REFUSED


def test_who_is_told_to_wait_asks_the_same_again(tmp_path: Path) -> None:
    answers = iter([whole("busy", "503 Service Unavailable", "Retry-After: 0")] * 2)

    def answer(connection: socket.socket) -> None:
        connection.sendall(next(answers, whole("bad", "400 Bad Request")))

    with server(answer) as address:
        load = Load(address, 1, tmp_path / "attempts.jsonl")
        load.start()
        until(lambda: len(load.attempts) >= 3, "asked three times")
        assert load.stop(10) == 0
    assert [one.how for one in load.attempts[:3]] == [How.TURNED, How.TURNED, How.FAILED]
    assert [one.name for one in load.attempts[:3]] == ["0-0-0", "0-0-1", "0-0-2"]
    assert len((tmp_path / "attempts.jsonl").read_text().splitlines()) == len(load.attempts)


@needs_haproxy
def test_a_gateway_without_an_engine_says_when_to_ask_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    with Gateway(tmp_path, tmp_path / "s", port) as gateway:
        found = ask(gateway.address, "a", 2, stream=False, seconds=10)
    assert (found.how, found.status, found.retry_after) == (How.TURNED, 503, 1.0)
    assert (json.loads(found.note)["error"]["code"], found.reason) == (503, "not_sent")
    assert ask(gateway.address, "a", 2, stream=False, seconds=10).how is How.REFUSED


@needs_haproxy
def test_an_instance_that_dies_before_it_answers_is_told_as_such(tmp_path: Path) -> None:
    with server(said(b"")) as address, Gateway(tmp_path, tmp_path / "s", address[1]) as gateway:
        found = ask(gateway.address, "a", 2, stream=False, seconds=10)
    assert (found.how, found.status, found.retry_after, found.reason) == (How.TURNED, 503, 1.0, "ended")


def test_a_gateway_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    with pytest.raises(NoGateway, match="does not serve; it said: no such luck"):
        Gateway(tmp_path, tmp_path / "s", 1, ["sh", "-c", "echo no such luck; exit 1"]).__enter__()
