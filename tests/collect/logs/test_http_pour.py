"""A page that is poured: given on as it comes, bounded, and no page at all where it breaks off."""

from __future__ import annotations

import socket
import threading

import pytest
from test_engine_pages import reply, serving, silent

from rankmuster.collect.logs import http_get
from rankmuster.collect.logs.http_get import Hold, Unanswered, pour


def test_the_pieces_are_the_page() -> None:
    body = bytes(range(256)) * 4000
    pieces: list[bytes] = []
    with serving(lambda c, r, n: c.sendall(reply(body))) as url:
        page = pour(f"{url}/x", 10, pieces.append)
    assert b"".join(pieces) == body
    assert max(map(len, pieces)) <= http_get.HEAD
    assert (page.status, page.body, page.cut, page.encoding) == (200, body[: http_get.HEAD], False, "")


def test_chunks_are_put_together() -> None:
    pieces: list[bytes] = []
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    with serving(lambda c, r, n: c.sendall(answer)) as url:
        pour(f"{url}/x", 5, pieces.append)
    assert b"".join(pieces) == b"abcde"


def test_only_what_was_asked_for_is_poured() -> None:
    pieces: list[bytes] = []
    with serving(lambda c, r, n: c.sendall(reply(b"z" * 100_000, "500 Oh"))) as url:
        page = pour(f"{url}/x", 5, pieces.append)
    assert (page.status, len(page.body), pieces) == (500, http_get.HEAD, [])


@pytest.mark.parametrize("length", [40, 4_000_000])
def test_a_page_that_breaks_off_is_none(length: int) -> None:
    def half(connection: socket.socket, request: bytes, count: int) -> None:
        connection.sendall(reply(b"a" * length)[: -length // 2])

    with serving(half) as url, pytest.raises(Unanswered, match=r"broke off|reset"):
        pour(f"{url}/x", 5, lambda piece: None)


def test_a_page_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(connection: socket.socket, request: bytes, count: int) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"a" * 50_000)

    monkeypatch.setattr(http_get, "MAX_BODY", 200_000)
    taken = [0]

    def count(piece: bytes) -> None:
        taken[0] += len(piece)

    with serving(endless) as url:
        assert pour(f"{url}/x", 5, count).cut
    assert 200_000 < taken[0] <= 200_000 + http_get.HEAD


def test_how_it_is_packed_is_told() -> None:
    with serving(lambda c, r, n: c.sendall(reply("x", "200 OK", "Content-Encoding: GZip"))) as url:
        assert pour(f"{url}/x", 5, lambda piece: None).encoding == "gzip"
    with serving(lambda c, r, n: c.sendall(reply("x", "200 OK", "Content-Encoding: identity"))) as url:
        assert pour(f"{url}/x", 5, lambda piece: None).encoding == ""


def test_another_thread_may_end_it() -> None:
    arrived, hold = threading.Event(), Hold()

    def hang(connection: socket.socket, request: bytes, count: int) -> None:
        arrived.set()
        silent(connection, request, count)

    with serving(hang) as url:
        ended = threading.Event()

        def ask() -> None:
            with pytest.raises(Unanswered):
                pour(f"{url}/x", 60, lambda piece: None, hold)
            ended.set()

        threading.Thread(target=ask, daemon=True).start()
        assert arrived.wait(10)
        hold.drop()
        assert ended.wait(10)
        with pytest.raises(Unanswered):
            pour(f"{url}/x", 60, lambda piece: None, hold)  # nor is it begun again
