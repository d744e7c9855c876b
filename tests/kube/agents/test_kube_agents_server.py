"""Nobody can hold the server up, and nobody gets anything without the token."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kube_wire_talk import TOKEN, raw, status, talk

from rankmuster.kube.agents.server import MOST_OF_ONE, Answer, Asked, ListenRefused, Route, Server
from rankmuster.kube.agents.token import Token

HEAD_SECONDS = 0.6


def echo(asked: Asked) -> Answer:
    return Answer(200, f"{asked.path}|{asked.query.get('a')}|".encode() + asked.whole())


def broken(asked: Asked) -> Answer:
    raise ValueError("a defect")


ROUTES = (
    Route("GET", "/healthz", lambda _: Answer(200, b"ok\n", "text/plain"), open=True),
    Route("POST", "/echo/", echo, most=1 << 20),
    Route("GET", "/broken", broken),
)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def server(token: Path) -> Iterator[Server]:
    made = Server("127.0.0.1:0", ROUTES, Token(token).allows, head_seconds=HEAD_SECONDS)
    yield made
    made.close()


def test_only_health_is_told_without_the_token(server: Server) -> None:
    assert talk(server.address, "GET", "/healthz", token=None)[::2] == (200, b"ok\n")
    code, headers, body = talk(server.address, "POST", "/echo/x", b"", token=None)
    assert (code, headers["www-authenticate"]) == (401, "Bearer")
    assert b"Authorization" in body
    for wrong in ("", "x", TOKEN[:-1], TOKEN + "x", "ä" * 20):
        assert talk(server.address, "POST", "/echo/x", b"", token=wrong)[0] == 401
    head = f"POST /echo/x HTTP/1.1\r\nAuthorization: Basic {TOKEN}\r\nContent-Length: 0\r\n\r\n"
    assert status(raw(server.address, head.encode())) == 401


def test_a_token_that_comes_late_or_changes_counts_at_once(server: Server, token: Path) -> None:
    token.unlink()
    code, _, body = talk(server.address, "POST", "/echo/x", b"")
    assert (code, b"secret mounted" in body) == (503, True)
    token.write_text("short")
    assert talk(server.address, "POST", "/echo/x", b"", token="short")[0] == 503  # it can be guessed
    token.write_text("another-token-which-is-long")
    assert talk(server.address, "POST", "/echo/x", b"")[0] == 401
    assert talk(server.address, "POST", "/echo/x", b"", token="another-token-which-is-long")[0] == 200


def test_paths_queries_and_bodies_come_as_they_are(server: Server) -> None:
    code, headers, body = talk(server.address, "POST", "/echo/a%2e%2Fb?a=1%202", b"x" * 100_000)
    assert code == 200
    assert body == b"a./b|1 2|" + b"x" * 100_000
    assert headers["content-length"] == str(len(body))
    assert talk(server.address, "GET", "/echo/a")[0] == 405
    assert talk(server.address, "POST", "/echo/", b"")[0] == 404
    assert talk(server.address, "GET", "/nothing")[0] == 404
    assert talk(server.address, "HEAD", "/healthz")[::2] == (200, b"")


AUTH = f"Authorization: Bearer {TOKEN}\r\n".encode()


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"GET /healthz HTTP/1.1\r\n" + b"X: " + b"y" * 40_000 + b"\r\n\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(4000)) + b"\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\nA: 1\r\nA: 2\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nSpace : 1\r\n\r\n", 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00 hello TLS\r\n\r\n", 400),
        (b"GET /%ff%fe HTTP/1.1\r\n\r\n", 400),
        (b"POST /echo/x HTTP/1.1\r\n" + AUTH + b"Content-Length: 99999999\r\n\r\n", 413),
        (b"POST /echo/x HTTP/1.1\r\n" + AUTH + b"Content-Length: -1\r\n\r\n", 400),
        (b"POST /echo/x HTTP/1.1\r\n" + AUTH + b"Content-Length: 1e3\r\n\r\n", 400),
        (b"POST /echo/x HTTP/1.1\r\n" + AUTH + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"GET /broken HTTP/1.1\r\n" + AUTH + b"\r\n", 500),
    ],
)
def test_what_is_no_request_of_ours_is_refused(server: Server, data: bytes, wanted: int) -> None:
    assert status(raw(server.address, data)) == wanted
    assert talk(server.address, "GET", "/healthz")[0] == 200


def test_a_body_that_ends_early_is_told(server: Server) -> None:
    with socket.create_connection(server.address, timeout=10) as connection:
        connection.sendall(b"POST /echo/x HTTP/1.1\r\n" + AUTH + b"Content-Length: 10\r\n\r\nabc")
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert status(answer) == 400
    assert b"7 bytes before" in answer


def test_whoever_drips_is_cut_and_holds_nobody_up(server: Server) -> None:
    with socket.create_connection(server.address, timeout=10) as slow:
        begun = time.monotonic()
        ended = threading.Event()

        def drip() -> None:
            try:
                for letter in b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 1000:
                    slow.sendall(bytes([letter]))
                    time.sleep(0.05)
            except OSError:
                ended.set()

        thread = threading.Thread(target=drip)
        thread.start()
        assert talk(server.address, "GET", "/healthz")[0] == 200
        assert ended.wait(10)
        thread.join()
    assert time.monotonic() - begun < 1000 * 0.05


def test_one_address_gets_a_part_of_the_places_and_the_others_are_served(server: Server) -> None:
    held = [socket.create_connection(server.address, timeout=10) for _ in range(MOST_OF_ONE + 4)]
    try:
        with socket.socket() as other:  # another address of this machine
            other.settimeout(10)
            other.bind(("127.0.0.9", 0))
            other.connect(server.address)
            other.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert status(other.recv(65536)) == 200
        for one in held:  # all are let go in the end, by the server
            assert one.recv(1) == b""
    finally:
        for one in held:
            one.close()
    assert talk(server.address, "GET", "/healthz")[0] == 200


def test_who_does_not_read_its_answer_is_cut(token: Path, tmp_path: Path) -> None:
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(64 << 20)
    route = Route("GET", "/big", lambda _: Answer(200, file=big.open("rb")), open=True)
    server = Server("127.0.0.1:0", (route,), Token(token).allows, head_seconds=0.1)
    server_rate = "rankmuster.kube.agents.server.LEAST_BYTES_PER_SECOND"
    try:
        with pytest.MonkeyPatch.context() as patch, socket.create_connection(server.address, timeout=10) as lazy:
            patch.setattr(server_rate, 1 << 30)
            lazy.sendall(b"GET /big HTTP/1.1\r\n\r\n")
            time.sleep(1.0)
            read = 0
            try:
                while piece := lazy.recv(1 << 20):
                    read += len(piece)
            except ConnectionError:
                pass
        assert read < 64 << 20
    finally:
        server.close()


def test_an_address_that_is_taken_or_none_is_refused(server: Server, token: Path) -> None:
    host, port = server.address
    for wrong in (f"{host}:{port}", "203.0.113.9:80", "nonsense", "127.0.0.1:99999"):
        with pytest.raises(ListenRefused):
            Server(wrong, ROUTES, Token(token).allows)
    everywhere = Server("*:0", ROUTES, Token(token).allows)
    try:
        assert talk(("127.0.0.1", everywhere.address[1]), "GET", "/healthz")[0] == 200
    finally:
        everywhere.close()
