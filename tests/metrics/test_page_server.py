"""The page is served whatever other clients do, on the address that was given and on no other."""

from __future__ import annotations

import gzip
import http.client
import socket
import time
from collections.abc import Iterator

import pytest

from rankmuster.metrics import server as module
from rankmuster.metrics.declared import Kind, Metric
from rankmuster.metrics.registry import Registry
from rankmuster.metrics.server import ListenRefused, PageServer, address_of

X = Metric("rankmuster_x_total", Kind.COUNTER, "X.")


@pytest.fixture
def served() -> Iterator[PageServer]:
    registry = Registry()
    registry.counter(X).add(3)
    server = PageServer("127.0.0.1:0", registry)
    yield server
    server.close()


def get(server: PageServer, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*server.address, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_page_is_there_packed_where_that_is_asked_for(served: PageServer) -> None:
    status, body = get(served)
    assert status == 200
    assert b"rankmuster_x_total 3.0" in body
    assert gzip.decompress(get(served, **{"Accept-Encoding": "gzip"})[1]) == body
    assert b"rankmuster_x_total 3.0" in get(served, Accept="application/openmetrics-text; version=1.0.0")[1]


def test_nothing_can_be_posted(served: PageServer) -> None:
    assert get(served, method="POST")[0] in (405, 501)
    assert get(served)[0] == 200


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /met",
        b"\0\xff" * 500,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 300,
        b"GET /" + b"x" * 70000,
        b"\r\n" * 9,
    ],
    ids=["nothing", "half", "rubbish", "headers", "long", "lines"],
)
def test_one_that_stalls_or_talks_nonsense_holds_nobody_up(served: PageServer, said: bytes) -> None:
    with socket.create_connection(served.address, timeout=10) as stalled:
        stalled.sendall(said)
        assert get(served)[0] == 200
    assert get(served)[0] == 200


def test_those_that_stall_are_bounded_and_put_out(served: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Handler, "timeout", 0.2)
    held = [socket.create_connection(served.address, timeout=10) for _ in range(module.MOST_SCRAPERS + 5)]
    try:
        end = time.monotonic() + 20
        while True:
            try:
                if get(served)[0] == 200:
                    break
            except (OSError, http.client.HTTPException):
                assert time.monotonic() < end
                time.sleep(0.02)
        assert all(one.recv(1000) == b"" for one in held[:3])
    finally:
        for one in held:
            one.close()


def test_a_port_that_is_taken_is_said_clearly(served: PageServer) -> None:
    host, port = served.address
    with pytest.raises(ListenRefused, match=rf"cannot be served on {host}:{port}: .*another program may have the port"):
        PageServer(f"{host}:{port}", Registry())


def test_an_address_of_somebody_else_is_refused() -> None:
    with pytest.raises(ListenRefused, match="none of this machine's"):
        PageServer("192.0.2.1:0", Registry())


def test_the_port_is_free_again_after_the_end() -> None:
    first = PageServer("127.0.0.1:0", Registry())
    _, port = first.address
    first.close()
    again = PageServer(f"127.0.0.1:{port}", Registry())
    assert get(again)[0] == 200
    again.close()


def test_ipv6_loopback() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 loopback here")
    server = PageServer("[::1]:0", Registry())
    assert get(server)[0] == 200
    server.close()


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:9402", ("127.0.0.1", 9402)),
        (":9402", ("127.0.0.1", 9402)),
        ("9402", ("127.0.0.1", 9402)),
        ("0.0.0.0:9402", ("0.0.0.0", 9402)),
        ("[::]:9402", ("::", 9402)),
        (" node-1:0 ", ("node-1", 0)),
    ],
)
def test_without_a_host_it_is_the_loopback(listen: str, address: tuple[str, int]) -> None:
    assert address_of(listen) == address


def test_a_star_is_every_address_and_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kube inject` gives it to sidecars: a loopback is closed to Prometheus, and most resolvers know no such name."""

    def asked(*_: object, **__: object) -> None:
        raise socket.gaierror("Name or service not known")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", asked)
        server = PageServer("*:0", Registry())
    try:
        host, port = server.address
        assert host in ("::", "0.0.0.0")
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    finally:
        server.close()


@pytest.mark.parametrize("listen", ["", "host", "host:", "host:port", "host:70000", "::1:9402", "host:-1", "h:1\u0663"])
def test_what_is_no_address_is_refused(listen: str) -> None:
    with pytest.raises(ListenRefused, match=r"wanted is HOST:PORT|in brackets"):
        address_of(listen)
