"""The metrics page of servers that answer, that hang, drip, redirect, refuse, and of what is no such server."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest
from log_scene import NOW, Taken, process, scene

from page_server import Answer, reply, serving
from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs import http_get
from rankmuster.collect.logs.engine_pages import EnginePages
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending
from rankmuster.collect.sink import SinkClosed, Store
from rankmuster.collect.wishes import Wishes
from rankmuster.evidence.bundle import load
from rankmuster.model.engine import EnginePage

PAGE = (
    "# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\n"
    'vllm:num_requests_running{{engine="0",model_name="m"}} 3.0\n'
    "# TYPE vllm:generation_tokens_total counter\n"
    'vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}.0\n'
)
QUICK = EnginePages(page_seconds=0.4)


def page(connection: socket.socket, request: bytes, count: int) -> None:
    connection.sendall(reply(PAGE.format(tokens=100 + count)))


def until_left(connection: socket.socket) -> None:
    """Waits until the client has gone."""
    while connection.recv(1024):
        pass


def silent(connection: socket.socket, request: bytes, count: int) -> None:
    until_left(connection)


def dripping(connection: socket.socket, request: bytes, count: int) -> None:
    for byte in reply(PAGE.format(tokens=1)):
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def endless(connection: socket.socket, request: bytes, count: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"vllm:x 1\n" * 10_000)


def endless_headers(connection: socket.socket, request: bytes, count: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X: y\r\n" * 1000)


def look(
    tmp_path: Path, *urls: str, given: str | None = None, collector: EnginePages = QUICK, **wishes: float
) -> Taken:
    of = scene(process(0), wishes=Wishes(metrics_url=given, look_seconds=wishes.get("gap", 0.05)), metrics_urls=urls)
    of.board.post_ending()
    # The clock of the pages' names moves, so that two looks have two names.
    started = time.monotonic()
    moving = Scene(of.target, of.machine, of.wishes, of.board, now=lambda: NOW + time.monotonic() - started)
    return Taken(tmp_path, collector, moving)


def test_two_looks_are_two_pages_that_tell_progress(tmp_path: Path) -> None:
    requests: list[bytes] = []
    with serving(page, requests=requests) as url:
        taken = look(tmp_path, f"{url}/metrics")
    assert taken.outcome.ending is Ending.DONE
    assert len(taken.pieces) == 2
    assert all(path.startswith("engine/17959865") and path.endswith(".prom") for path in taken.pieces)
    pages = load(taken.folder).of(EnginePage)
    assert [one.streams[0].steps["vllm:generation_tokens_total"] for one in pages] == [101.0, 102.0]
    for one, piece in zip(pages, taken.pieces.values(), strict=True):
        assert one.time is not None
        assert piece.look_time is not None
        assert abs(one.time.seconds - piece.look_time) < 0.001
    assert all(b"uthorization" not in request and request.startswith(b"GET /metrics HTTP/1.1") for request in requests)


def test_a_last_look_when_all_else_is_done(tmp_path: Path) -> None:
    with serving(page) as url:
        of = scene(process(0), wishes=Wishes(look_seconds=0.05), metrics_urls=(f"{url}/metrics",))
        threading.Timer(0.3, of.board.post_ending).start()
        taken = Taken(tmp_path, QUICK, of)
    assert len(taken.pieces) == 3


@pytest.mark.parametrize("answer", [silent, dripping, endless_headers])
def test_a_server_that_does_not_end_is_left_in_time(tmp_path: Path, answer: Answer) -> None:
    started = time.monotonic()
    with serving(answer) as url:
        taken = look(tmp_path, f"{url}/metrics")
        spent = time.monotonic() - started
    assert spent < 10
    assert taken.pieces == {}
    assert taken.outcome.ending is Ending.FAILED
    assert url in taken.outcome.note


def test_a_hung_server_is_told_from_none(tmp_path: Path) -> None:
    with serving(silent) as url:
        assert "no answer came" in look(tmp_path, f"{url}/metrics").outcome.note
    taken = look(tmp_path / "2", f"{url}/metrics")  # nobody listens there any more
    assert taken.outcome.ending is Ending.NOTHING
    assert "nobody listens" in taken.outcome.note


def test_an_endless_page_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_get, "MAX_BODY", 100_000)
    with serving(endless) as url:
        taken = look(tmp_path, f"{url}/metrics", collector=EnginePages(page_seconds=5))
    assert taken.outcome.ending is Ending.FAILED
    assert "longer than" in taken.outcome.note


def test_a_redirect_within_the_server_is_followed_and_no_other(tmp_path: Path) -> None:
    asked: list[bytes] = []

    def to_slash(connection: socket.socket, request: bytes, count: int) -> None:
        if request.startswith(b"GET /metrics/ "):
            page(connection, request, count)
        else:
            connection.sendall(reply("", "307 Temporary Redirect", "Location: /metrics/"))

    with serving(to_slash) as url:
        assert look(tmp_path, f"{url}/metrics").outcome.ending is Ending.DONE

    with serving(page, requests=asked) as other:

        def away(connection: socket.socket, request: bytes, count: int) -> None:
            connection.sendall(reply("", "302 Found", f"Location: {other}/metrics"))

        def around(connection: socket.socket, request: bytes, count: int) -> None:
            connection.sendall(reply("", "302 Found", "Location: /metrics"))

        with serving(away) as url:
            taken = look(tmp_path / "2", f"{url}/metrics")
        with serving(around) as url:
            assert "redirects more than" in look(tmp_path / "3", f"{url}/metrics").outcome.note
    assert taken.outcome.ending is Ending.FAILED
    assert "another server" in taken.outcome.note
    assert asked == []


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (reply("<html><body>a login</body></html>"), "no metrics page"),
        (reply('{"detail":"Not Found"}', "404 Not Found"), "--enable-metrics"),
        (reply("{}", "401 Unauthorized"), "wants a key"),
        (reply("busy", "503 Service Unavailable"), "503"),
        (reply(b"\x00\xff" * 100), "no metrics page"),
        (reply(""), "no metrics page"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nvllm:x 1\n", "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -7\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ""),
        (b"", "RemoteDisconnected"),
    ],
)
def test_what_is_no_metrics_page_is_told_and_not_kept(tmp_path: Path, answer: bytes, word: str) -> None:
    with serving(lambda connection, request, count: connection.sendall(answer)) as url:
        taken = look(tmp_path, f"{url}/metrics")
    assert taken.pieces == {}
    assert taken.outcome.ending is Ending.FAILED
    assert word in taken.outcome.note


def test_a_page_without_an_engines_series_is_kept_with_a_warning(tmp_path: Path) -> None:
    body = "# TYPE python_info gauge\npython_info 1.0\n"
    with serving(lambda connection, request, count: connection.sendall(reply(body))) as url:
        taken = look(tmp_path, f"{url}/metrics")
    assert len(taken.pieces) == 2
    assert any("no series of a serving engine" in warning for warning in taken.outcome.warnings)


def test_what_the_operator_gives_outranks_what_was_found(tmp_path: Path) -> None:
    asked: list[bytes] = []
    with serving(page, requests=asked) as found, serving(page) as given:
        taken = look(tmp_path, f"{found}/metrics", given=f"{given}/custom?x=1")
    assert asked == []
    assert f"{given}/custom" in taken.outcome.note


@pytest.mark.parametrize(
    "url", ["ftp://x/metrics", "http://", "http://[::1/metrics", "http://h:99999/", "x", "file:///etc"]
)
def test_what_is_no_url_is_said(tmp_path: Path, url: str) -> None:
    taken = look(tmp_path, given=url)
    assert taken.outcome.ending is Ending.FAILED
    assert "URL" in taken.outcome.note


def test_the_first_address_that_answers_is_the_server(tmp_path: Path) -> None:
    with serving(page) as url:
        port = url.rsplit(":", 1)[1]
        taken = look(tmp_path, f"http://127.0.0.77:{port}/metrics", f"{url}/metrics")
    assert len(taken.pieces) == 2


def test_servers_of_several_ports_are_each_asked_at_once(tmp_path: Path) -> None:
    with serving(page) as one, serving(page) as two, serving(silent) as hung:
        taken = look(tmp_path, *(f"{url}/metrics" for url in (hung, one, two)))
    ports = {path.removesuffix(".prom").rsplit("-", 1)[1] for path in taken.pieces}
    assert ports == {url.rsplit(":", 1)[1] for url in (one, two)}
    assert len(taken.pieces) == 4
    assert taken.outcome.ending is Ending.PARTIAL
    assert all(one.time is not None for one in load(taken.folder).of(EnginePage))


def test_a_proxy_in_the_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with serving(page) as url:
        assert look(tmp_path, f"{url}/metrics").outcome.ending is Ending.DONE


def test_no_server_and_no_instance(tmp_path: Path) -> None:
    assert "--metrics-url" in look(tmp_path).outcome.note
    alone = Taken(tmp_path / "2", EnginePages(), Scene(None, Machine(), Wishes(look_seconds=0)))
    assert alone.outcome.ending is Ending.NOTHING


def test_no_time(tmp_path: Path) -> None:
    with serving(page) as url:
        taken = Taken(tmp_path, EnginePages(), scene(process(0), metrics_urls=(f"{url}/metrics",)), seconds=0)
    assert taken.pieces == {}
    assert taken.outcome.ending is Ending.FAILED


def test_a_closed_bundle_ends_the_collector(tmp_path: Path) -> None:
    store = Store(tmp_path / "bundle")
    store.close()
    with serving(page) as url, pytest.raises(SinkClosed):
        QUICK.collect(scene(process(0), metrics_urls=(f"{url}/metrics",)), store.sink("engine"), Deadline.after(5))


@pytest.mark.parametrize("path", ["metrics", "none"])
def test_what_is_secret_in_an_address_is_not_written_down(tmp_path: Path, path: str) -> None:
    def answer(connection: socket.socket, request: bytes, count: int) -> None:
        if b"/none" in request:
            connection.sendall(reply("no", "404 Not Found"))
        else:
            page(connection, request, count)

    with serving(answer) as url:
        taken = look(tmp_path, f"{url.replace('//', '//user:S3CRET@')}/{path}?token=S3CRET#S3CRET")
    assert url.rpartition(":")[2] in str(taken.outcome)
    assert "S3CRET" not in str(taken.outcome)
