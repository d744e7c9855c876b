"""Whether an instance serves: only a whole good answer says so. And the HTTP call below it, which always ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from page_server import Answer, reply, serving
from rankmuster.adapters.connect import NotConnected, connect
from rankmuster.adapters.http_call import NotCalled, call, server_of
from rankmuster.adapters.probe_http import HttpProbe
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending


def sends(data: bytes) -> Answer:
    return lambda connection, request, count: connection.sendall(data)


def hang(connection: socket.socket, request: bytes, count: int) -> None:
    while connection.recv(65536):
        pass


def drip(connection: socket.socket, request: bytes, count: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"ok")
        threading.Event().wait(0.02)


def drip_headers(connection: socket.socket, request: bytes, count: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(10_000):
        connection.sendall(f"X-{number % 50}: 1".encode())
        threading.Event().wait(0.02)


GOOD = reply('{"choices": [{"text": "ok"}]}')


@pytest.mark.parametrize(
    ("answer", "ending", "words"),
    [
        (sends(GOOD), Ending.DONE, "status 200"),
        (sends(reply("choices", "201 Created")), Ending.DONE, "status 201"),
        (sends(reply("none")), Ending.FAILED, "without the text that is expected: none"),
        (sends(reply("")), Ending.FAILED, "nothing"),
        (sends(reply("choices", "503 Service Unavailable")), Ending.FAILED, "status 503: choices"),
        (sends(reply("choices", "404 Not Found")), Ending.FAILED, "status 404"),
        (sends(reply("", "302 Found", "Location: http://elsewhere.invalid/")), Ending.FAILED, "302"),
        (sends(GOOD[:-9]), Ending.FAILED, "broke off"),
        (sends(b"\x00\xff garbage"), Ending.FAILED, "the connection broke"),
        (sends(b""), Ending.FAILED, "the connection broke"),
        (sends(reply("\x1b[2J\u202egone")), Ending.FAILED, "expected"),
        (sends(reply(b"x" * (6 << 20))), Ending.FAILED, "expected"),
        (hang, Ending.FAILED, "no answer came"),
        (drip, Ending.FAILED, "did not end"),
        (drip_headers, Ending.FAILED, "did not end"),
    ],
)
def test_only_a_whole_good_answer_is_one(answer: Answer, ending: Ending, words: str) -> None:
    with serving(answer) as url:
        probe = HttpProbe("probe", f"{url}/v1/completions?key=s3cr3t", '{"prompt": "1"}', "choices", seconds=0.5)
        told = probe.serves(None, Deadline.after(10.0))
    assert told.ending is ending, told
    assert words in told.note
    assert "s3cr3t" not in told.note
    assert told.note.isprintable()


def test_what_is_asked(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer s3cr3t\n")
    requests: list[bytes] = []
    with serving(sends(GOOD), requests=requests) as url:
        assert HttpProbe("p", url, header_file=headers).serves("x", Deadline.after(5.0)).ending is Ending.DONE
        assert HttpProbe("p", url, "{}").serves("x", Deadline.after(5.0)).ending is Ending.DONE
    assert requests[0].startswith(b"GET / HTTP/1.1\r\n")
    assert b"Authorization: Bearer s3cr3t" in requests[0]
    assert requests[1].startswith(b"POST / HTTP/1.1\r\n")
    assert b"Content-Type: application/json" in requests[1]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://x/", "no http or https URL"),
        ("http://user:s3cr3t@127.0.0.1/", "user or a password"),
        ("http://no.such.host.invalid/", "no connection could be made"),
        ("http://127.0.0.1:1/", "Connection refused"),
        ("http://127.0.0.1:99999/", "no http or https URL"),
    ],
)
def test_an_address_that_cannot_be_used_is_told(url: str, words: str) -> None:
    answer = HttpProbe("p", url).serves(None, Deadline.after(5.0))
    assert (answer.ending, words in answer.note) == (Ending.FAILED, True), answer
    assert "s3cr3t" not in answer.note


@pytest.mark.parametrize("made", [lambda: "http://[::1", lambda: "http://h:p/", lambda: ""])
def test_a_server_is_named_without_its_secrets(made: Callable[[], str]) -> None:
    assert server_of("https://user:s3cr3t@h.example:81/s3cr3t?k=s3cr3t") == "https://h.example:81"
    assert "s3cr3t" not in server_of(made())


def test_a_tls_handshake_that_hangs_ends_in_time() -> None:
    with serving(hang) as url, pytest.raises(NotCalled, match="no connection could be made"):
        call("GET", url.replace("http:", "https:"), Deadline.after(0.4))


def test_a_redirect_is_followed_on_the_same_server_only() -> None:
    def leads(connection: socket.socket, request: bytes, count: int) -> None:
        connection.sendall(GOOD if b" /next " in request else reply("", "301 Moved", "Location: /next"))

    with serving(leads) as url:
        assert call("GET", f"{url}/x", Deadline.after(5.0)).status == 200
        assert call("POST", f"{url}/x", Deadline.after(5.0), body=b"{}").status == 301
    with (
        serving(sends(reply("", "307 Go", "Location: http://other.invalid/"))) as url,
        pytest.raises(NotCalled, match="another server"),
    ):
        call("POST", url, Deadline.after(5.0), body=b"{}")


def test_without_time_nothing_is_asked() -> None:
    with pytest.raises(NotCalled, match="no time left"):
        call("GET", "http://127.0.0.1:1/", Deadline.after(0.0))
    with pytest.raises(NotConnected, match="in time"):
        connect("127.0.0.1", 1, Deadline.after(0.0))
