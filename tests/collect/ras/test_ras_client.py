"""One connection: lines, bounds, and what is never sent. Addresses: all of a host, whatever its resolver says."""

from __future__ import annotations

import random
import socket
import threading
import time

import fake_server
import pytest
from fake_server import FakeServer, capture, era
from ras_scene import Stage, ready

from rankmuster.collect.bounded import Late, within
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.outcome import Ending
from rankmuster.collect.ras import client, collector
from rankmuster.collect.ras.address import AddressUnusable, Endpoint, addresses, endpoint
from rankmuster.collect.ras.attempts import Met, NoAnswer, summary
from rankmuster.collect.ras.client import Broken, Ended, Service
from rankmuster.collect.ras.identity import Whose, is_report, release_text, whose
from rankmuster.collect.ras.keep import Shelf
from rankmuster.collect.ras.poll import patience, server_timeout
from rankmuster.collect.sink import Store
from rankmuster.evidence import names
from rankmuster.model.ras import RasPoll


def _soon(seconds: float = 5.0) -> Deadline:
    return Deadline.after(seconds)


def _service(*ports: int, host: str = "127.0.0.1") -> Service:
    found = tuple(address for port in ports for address in addresses(Endpoint(host, port), _soon()))
    return Service(found)


@pytest.mark.parametrize(
    ("setting", "host", "port"),
    [
        (None, "localhost", 28028),
        ("", "localhost", 28028),
        ("  ", "localhost", 28028),
        ("10.0.0.7:1", "10.0.0.7", 1),
        ("node-7.cluster.local:65535", "node-7.cluster.local", 65535),
        ("[::1]:28028", "::1", 28028),
        ("[fe80::1%eth0]:28028", "fe80::1%eth0", 28028),
        (" localhost:28029 ", "localhost", 28029),
    ],
)
def test_addresses_are_read_as_nccl_writes_them(setting, host, port):
    assert endpoint(setting) == Endpoint(host, port)


@pytest.mark.parametrize(
    "setting", ["x", "::1:28028", "[::1]", "[x]:1", "a:b:1", "a:-1", "a:0", "a:65536", "a:1\n2", "a/b:1"]
)
def test_what_is_no_address_is_said(setting):
    with pytest.raises(AddressUnusable, match="NCCL_RAS_ADDR="):
        endpoint(setting)


def test_localhost_is_both_loopbacks_and_each_once():
    found = addresses(Endpoint("localhost", 28028), _soon())
    assert {str(address) for address in found} >= {"[::1]:28028", "127.0.0.1:28028"}
    assert len(set(found)) == len(found)


def test_an_address_that_means_any_is_asked_at_loopback():
    assert [str(one) for one in addresses(Endpoint("0.0.0.0", 5), _soon())] == ["127.0.0.1:5"]
    assert [str(one) for one in addresses(Endpoint("::", 5), _soon())] == ["[::1]:5", "127.0.0.1:5"]


def test_a_refused_address_leads_to_the_next():
    with socket.socket() as bound, FakeServer(era("2.28.9")) as server:
        bound.bind(("127.0.0.1", 0))
        service = _service(bound.getsockname()[1], server.port)
        with service.open(_soon()) as session:
            assert session.greeting == "SERVER PROTOCOL 2"
    assert [one.met for one in service.attempts] == [Met.REFUSED, Met.RAS]


def test_nobody_answers_tells_the_whole_story():
    with socket.socket() as bound, FakeServer(handler=fake_server.web_server) as server:
        bound.bind(("127.0.0.1", 0))
        refused = bound.getsockname()[1]
        with pytest.raises(NoAnswer) as nobody:
            _service(refused, server.port).open(_soon())
    assert f"127.0.0.1:{refused} refused" in str(nobody.value)
    assert "HTTP/1.1 400 Bad Request" in str(nobody.value)


def test_silence_is_asked_again_and_counted(monkeypatch):
    monkeypatch.setattr(client, "HANDSHAKE_SECONDS", 0.05)
    with FakeServer(handler=fake_server.silent) as server:
        service = _service(server.port)
        with pytest.raises(NoAnswer):
            service.open(_soon())
    assert [one.met for one in service.attempts] == [Met.SILENT] * client.MAX_SILENT
    assert "accepted and never answered (5 times)" in summary(tuple(service.attempts))


def test_no_address_is_no_answer():
    with pytest.raises(NoAnswer, match="no time was left"):
        Service(()).open(_soon())


def test_a_line_of_1024_bytes_is_too_long():
    def handler(server: FakeServer, connection: socket.socket) -> None:
        for _ in fake_server.greet(server, connection):
            connection.sendall(b"E" * 5000)

    with (
        FakeServer(handler=handler) as server,
        _service(server.port).open(_soon()) as session,
        pytest.raises(Broken, match="without an end of line"),
    ):
        session.ask("SET FORMAT json", _soon())


def test_bytes_behind_an_answer_belong_to_the_report():
    def handler(server: FakeServer, connection: socket.socket) -> None:
        for line in fake_server.greet(server, connection):
            if line == "TIMEOUT 5":
                connection.sendall(b"OK\nNCCL ver")
            else:
                connection.sendall(b"sion 2.24.3")
                connection.close()
                return

    with FakeServer(handler=handler) as server, _service(server.port).open(_soon()) as session:
        assert session.ask("TIMEOUT 5", _soon()) == "OK"
        reply = session.report("VERBOSE STATUS", _soon())
    assert (reply.data, reply.ended) == (b"NCCL version 2.24.3", Ended.WHOLE)


def test_a_report_to_a_broken_connection_is_no_exception():
    def handler(server: FakeServer, connection: socket.socket) -> None:
        lines = fake_server.greet(server, connection)
        next(lines, None)
        fake_server.reset(connection)

    with FakeServer(handler=handler) as server, _service(server.port).open(_soon()) as session:
        with pytest.raises(Broken):
            session.ask("TIMEOUT 5", _soon())
        reply = session.report("VERBOSE STATUS", _soon())
    assert (reply.data, reply.ended) in ((b"", Ended.BROKEN), (b"", Ended.WHOLE))


@pytest.mark.parametrize(
    ("seconds", "factor", "sent"),
    [(20, 1, 5), (10.6, 1, 5), (9, 1, 3), (7, 1, 1), (2, 1, 1), (0, 1, 1), (20, 3, 4), (20, 1000, 1), (20, 0.1, 5)],
)
def test_the_service_gives_up_before_we_do_and_never_never(seconds, factor, sent):
    assert server_timeout(seconds, factor) == sent


@pytest.mark.parametrize(
    ("remaining", "looks", "factor", "seconds"),
    [(19, 2, 1, 9.5), (10, 2, 1, 6.5), (10, 1, 1, 10), (5, 2, 1, 5), (1, 2, 1, 1), (19, 2, 3, 16.5), (0, 2, 1, 0)],
)
def test_two_looks_share_the_time_and_each_is_long_enough(remaining, looks, factor, seconds):
    assert patience(remaining, looks, factor) == seconds


def test_whose_reply_it_is():
    killed_json, killed_text = capture("rank-killed-2.28.9.json"), capture("rank-killed-2.28.9.txt")
    assert whose(killed_json, (6224,)) is Whose.OURS
    assert whose(killed_json, (1, 2)) is Whose.ANOTHERS
    assert whose(killed_text, (6226,)) is Whose.OURS  # the missing one: text names no other
    assert whose(killed_text, (6223,)) is Whose.UNSAID  # ours, and the one that it names has ended
    assert whose(capture("init-2.28.9.json"), (1,)) is Whose.UNSAID
    assert whose(killed_json, ()) is Whose.UNSAID
    assert whose(b"", (1,)) is Whose.UNSAID


def test_a_call_that_hangs_is_left_behind():
    release = threading.Event()
    with pytest.raises(Late, match="not done within"):
        within(0.1, release.wait, "hangs")
    release.set()
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0, "breaks")
    assert within(5, lambda: 7, "works") == 7


def test_what_is_a_report():
    for name in ("rank-killed-2.28.9.json", "rank-killed-2.28.9.txt", "init-2.28.9.json", "rank-frozen-2.28.9.txt"):
        assert is_report(capture(name))
        assert is_report(capture(name)[:90])
        assert release_text(capture(name)) == "2.28.9"
    for other in (b"", b"OK\n", b"ERROR: Unknown command STATUS\n", b"HTTP/1.1 400 Bad Request\r\n", bytes(300)):
        assert not is_report(other)


def test_files_of_one_millisecond_keep_their_node(tmp_path):
    shelf = Shelf(Store(tmp_path).sink("ras"), "node-7")
    first, second = shelf.failed(1795986513.8, "a"), shelf.failed(1795986513.8, "b")
    assert first != second
    assert [names.node_of(path) for path in (first, second)] == ["node-7"] * 2


@pytest.mark.parametrize("host", ["node7", "10.0.0.7", "ip-10-0-0-7.ec2.internal", "../../etc", "näme", ""])
def test_the_node_is_read_from_the_name_whatever_the_host_is_called(tmp_path, host):
    shelf = Shelf(Store(tmp_path / "in").sink("ras"), host)
    for path in (shelf.failed(1795986513.8, "a"), shelf.name(1795986513.9, ".json")):
        assert names.node_of(path)
        assert names.time_of(path).seconds == pytest.approx(1795986513.85, abs=0.1)


@pytest.mark.parametrize("where", ["greeting", "probe", "report", "stream"])
def test_noise_never_breaks_the_collector(tmp_path, monkeypatch, where):
    monkeypatch.setattr(client, "HANDSHAKE_SECONDS", 0.1)
    monkeypatch.setattr(client, "LINE_SECONDS", 0.1)
    monkeypatch.setattr(collector, "LEAST_SECONDS", 0.1)
    served = era("2.32.3")
    for seed in range(3):
        noise = random.Random(seed)
        junk = noise.choice([noise.randbytes(40), b"{" * 3000, b"\n" * 50, b'{"nccl_version": "', b"\xff\n", b"\0"])

        def handler(server: FakeServer, connection: socket.socket, junk: bytes = junk) -> None:
            if where == "greeting":
                connection.sendall(junk)
                return
            for line in fake_server.greet(server, connection):
                hit = {"probe": line == "CONTROL x", "report": line == "VERBOSE STATUS"}.get(where, False)
                if hit or (where == "stream" and line.startswith("MONITOR life")):
                    connection.sendall(junk)
                    if where == "report":
                        connection.close()
                        return
                elif line == "VERBOSE STATUS":
                    connection.sendall(served.json)
                    connection.close()
                    return
                else:
                    connection.sendall(fake_server.answer_of(line.upper(), line, served).encode() + b"\n")

        with FakeServer(handler=handler) as server:
            stage = Stage(tmp_path / str(seed), server.port)
            begun = time.monotonic()
            outcome = stage.collect(ready(stage.scene(polls=1)), seconds=0.6)
            assert time.monotonic() - begun < 3
        assert outcome.note
        if where == "stream":
            assert outcome.ending is Ending.DONE
        assert stage.evidence().of(RasPoll)
