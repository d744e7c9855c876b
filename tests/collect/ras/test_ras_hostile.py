"""Services that misbehave: the right result or a clear refusal, within the deadline, every time."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import fake_server
import pytest
from fake_server import FakeServer, era
from ras_scene import Stage, ready

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.outcome import Ending
from rankmuster.collect.ras import client, collector
from rankmuster.collect.ras.address import Endpoint, addresses
from rankmuster.collect.target import Role
from rankmuster.collect.wishes import RasRisk
from rankmuster.model.ras import RasPoll

SECONDS = 0.8
GRACE = 2.0
"""On top of the deadline before a test fails: the machine may be busy."""

SERVED = era("2.30.7")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """The same with shorter times, so that many deadlines can be waited for."""
    monkeypatch.setattr(client, "HANDSHAKE_SECONDS", 0.2)
    monkeypatch.setattr(collector, "LEAST_SECONDS", 0.2)


def _run(tmp_path, server: FakeServer, seconds: float = SECONDS):
    stage = Stage(tmp_path, server.port)
    begun = time.monotonic()
    outcome = stage.collect(ready(stage.scene()), seconds=seconds)
    assert time.monotonic() - begun < seconds + GRACE
    return stage, outcome


@pytest.mark.parametrize(
    ("handler", "ending", "words"),
    [
        (fake_server.silent, Ending.FAILED, "accepted and never answered"),
        (fake_server.slow_greeting, Ending.FAILED, "accepted and never answered"),
        (fake_server.closes_at_once, Ending.FAILED, "accepted and closed the connection"),
        (fake_server.closes_after_handshake, Ending.FAILED, "greeted as RAS does"),
        (fake_server.garbage, Ending.FAILED, "is not RAS"),
        (fake_server.web_server, Ending.FAILED, "HTTP/1.1 400 Bad Request"),
        (fake_server.long_line, Ending.FAILED, "without an end of line"),
        (fake_server.wrong_order, Ending.FAILED, "which no NCCL says"),
        (fake_server.mute_after_request(SERVED), Ending.FAILED, "timed out"),
        (fake_server.says_after_request(SERVED, b""), Ending.FAILED, "closed without a report"),
        (fake_server.says_after_request(SERVED, b"BUSY: try later\n"), Ending.FAILED, "BUSY: try later"),
        (fake_server.says_after_request(SERVED, bytes(range(256)) * 4), Ending.FAILED, "which is no report"),
        (fake_server.says_after_request(SERVED, b"ERROR: Unknown command VERBOSE\n"), Ending.FAILED, "Unknown command"),
    ],
)
def test_no_report_is_said_clearly_and_leaves_a_query_in_vain(tmp_path, handler, ending, words):
    with FakeServer(handler=handler) as server:
        stage, outcome = _run(tmp_path, server)
    assert outcome.ending is ending, outcome
    assert words in outcome.note
    assert stage.replies() == []
    polls = stage.evidence().of(RasPoll)
    assert polls
    assert not any(poll.answered for poll in polls)
    assert all(poll.error and poll.time is not None and poll.node == "node1" for poll in polls)
    assert json.loads(stage.record())["outcome"].startswith(ending.value)


@pytest.mark.parametrize(
    ("handler", "how"),
    [
        (fake_server.never_closes(SERVED), "time"),
        (fake_server.slow_drip(SERVED), "time"),
        (fake_server.reset_mid_reply(SERVED), "broken"),
    ],
)
def test_what_came_of_a_report_is_kept(tmp_path, handler, how):
    with FakeServer(handler=handler) as server:
        stage, outcome = _run(tmp_path, server)
    assert outcome.ending is Ending.PARTIAL, outcome
    assert f"cut ({how})" in outcome.note
    replies = stage.replies()
    assert replies
    for reply in replies:
        assert reply
        assert SERVED.json.startswith(reply)
    assert all(poll.answered for poll in stage.evidence().of(RasPoll))


def test_an_endless_report_is_cut_at_its_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "MAX_REPLY", 1 << 20)
    with FakeServer(handler=fake_server.endless(SERVED)) as server:
        connection = client.Service(_addresses(server)).open(_deadline(3))
        with connection:
            connection.ask("SET FORMAT json", _deadline(3))
            reply = connection.report("VERBOSE STATUS", _deadline(3), max_bytes=1 << 20)
    assert reply.ended is client.Ended.SIZE
    assert len(reply.data) == 1 << 20


def test_an_endless_report_does_not_outlast_the_deadline(tmp_path):
    def endless_blanks(server: FakeServer, connection: socket.socket) -> None:
        lines = fake_server.greet(server, connection)
        for line in lines:
            if line == "VERBOSE STATUS":
                connection.sendall(SERVED.json)
                while not server.pause(0.01):
                    connection.sendall(b" " * 4096)
            connection.sendall(fake_server.answer_of(line.upper(), line, SERVED).encode() + b"\n")

    with FakeServer(handler=endless_blanks) as server:
        stage, outcome = _run(tmp_path, server)
    assert outcome.ending is Ending.PARTIAL
    assert stage.replies()[0].startswith(SERVED.json)


def test_nobody_listens(tmp_path):
    with socket.socket() as bound:  # bound and not listening: nobody else can take the port meanwhile
        bound.bind(("127.0.0.1", 0))
        stage = Stage(tmp_path, bound.getsockname()[1])
        outcome = stage.collect(ready(stage.scene()))
    assert outcome.ending is Ending.NOTHING
    assert "refused" in outcome.note
    (poll,) = stage.evidence().of(RasPoll)
    assert not poll.answered
    assert "ConnectionRefusedError" in poll.error


@pytest.mark.parametrize("hosts", [("::1",), ("127.0.0.1",), ("::1", "127.0.0.1")])
def test_localhost_is_found_on_either_family_alone(tmp_path, hosts):
    with FakeServer(era("2.29.2"), hosts=hosts) as server:
        stage = Stage(tmp_path, server.port)
        stage.environ = {"NCCL_RAS_ADDR": f"localhost:{server.port}"}
        assert stage.collect(ready(stage.scene())).ending is Ending.DONE
    assert server.violations == []


def test_a_bracketed_address_is_asked(tmp_path):
    with FakeServer(era("2.29.2"), hosts=("::1",)) as server:
        stage = Stage(tmp_path, server.port, host="::1")
        assert stage.collect(ready(stage.scene())).ending is Ending.DONE


def test_a_service_that_wakes_up_between_two_looks_is_asked_after_all(tmp_path):
    asleep = [1, 1, 1, 1, 1]

    def handler(server: FakeServer, connection: socket.socket) -> None:
        if asleep:
            asleep.pop()
            fake_server.close(connection)
        else:
            fake_server.serve_era(server, connection, SERVED)

    with FakeServer(handler=handler) as server:
        stage, outcome = _run(tmp_path, server, 8)
    assert outcome.ending is Ending.DONE
    assert len(stage.replies()) == 2


_STOPPED = """
import socket, sys, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(64)
print("listening", flush=True)
time.sleep(60)
"""


@pytest.fixture
def stopped_beside():
    """Starts a process that shares a port (SO_REUSEPORT, as every rank of a node does) and stops it (SIGSTOP)."""
    children: list[subprocess.Popen[bytes]] = []

    def start(port: int) -> None:
        child = subprocess.Popen([sys.executable, "-c", _STOPPED, str(port)], stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"listening\n"
        os.kill(child.pid, signal.SIGSTOP)

    yield start
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_stopped_process_that_shares_the_port_is_met_and_passed_by(tmp_path, stopped_beside, monkeypatch):
    monkeypatch.setattr(client, "MAX_SILENT", 40)  # the kernel's choice is a coin's: never a flaky test
    with FakeServer(SERVED, reuse=True) as server:
        stopped_beside(server.port)
        stage = Stage(tmp_path, server.port)
        outcome = stage.collect(ready(stage.scene(polls=4)), seconds=20)
    assert outcome.ending is Ending.DONE, outcome
    assert len(stage.replies()) == 4
    assert server.violations == []
    attempts = json.loads(stage.record())["attempts"]
    silent = [one for one in attempts if one["met"] == "silent"]
    # 1 in 2**6 runs meets the stopped one never; then there is nothing to say of it either.
    assert bool(silent) is any("never answered" in warning for warning in outcome.warnings)
    assert len(stage.errors()) <= len(silent)
    assert set(stage.errors()) <= {"TimeoutError('timed out')\n"}


def test_only_a_stopped_process_is_there(tmp_path, stopped_beside):
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        stopped_beside(port)
        stage = Stage(tmp_path, port)
        outcome = stage.collect(ready(stage.scene()), seconds=SECONDS)
    assert outcome.ending is Ending.FAILED
    assert "accepted and never answered" in outcome.note
    assert stage.errors()[0] == "TimeoutError('timed out')\n"
    assert any("stopped, or frozen" in warning for warning in outcome.warnings)


def test_a_deadline_that_has_passed_asks_nobody(tmp_path):
    with FakeServer(SERVED) as server:
        stage = Stage(tmp_path, server.port)
        outcome = stage.collect(ready(stage.scene()), seconds=0.0)
    assert outcome.ending in (Ending.FAILED, Ending.DECLINED)
    assert server.commands == []


def test_little_time_is_used_for_one_poll(tmp_path):
    with FakeServer(SERVED) as server:
        stage = Stage(tmp_path, server.port)
        stage.wishes = replace(stage.wishes, ras_gap_seconds=30.0)
        outcome = stage.collect(ready(stage.scene()), seconds=2.0)
    assert outcome.ending is Ending.PARTIAL
    assert "1 of 2 polls" in outcome.note
    assert len(stage.replies()) == 1


@pytest.mark.parametrize(
    "setting", ["", "nonsense", "localhost", ":", "host:0", "host:99999", "[::1]", "a b:1", "é:1", "h:" + "9" * 400]
)
def test_an_address_that_is_none_is_said(tmp_path, setting):
    stage = Stage(tmp_path, 1)
    stage.environ = {"NCCL_RAS_ADDR": setting}
    outcome = stage.collect(ready(stage.scene()))
    if setting:
        assert outcome.ending is Ending.NOTHING
        assert "NCCL_RAS_ADDR" in outcome.note
    else:
        assert "localhost:28028" in json.loads(stage.record())["asked_at"]


def test_a_host_that_has_no_address_is_said(tmp_path):
    stage = Stage(tmp_path, 1)
    stage.environ = {"NCCL_RAS_ADDR": "no-such-host.invalid:28028"}
    outcome = stage.collect(ready(stage.scene()))
    assert outcome.ending is Ending.FAILED
    assert "no-such-host.invalid" in outcome.note


@pytest.mark.parametrize("value", ["0", "0x0", "00", " 0 "])
def test_ras_that_is_switched_off_is_not_looked_for(tmp_path, value):
    with FakeServer(SERVED) as server:
        stage = Stage(tmp_path, server.port)
        stage.environ["NCCL_RAS_ENABLE"] = value
        outcome = stage.collect(ready(stage.scene()))
    assert outcome.ending is Ending.NOTHING
    assert "NCCL_RAS_ENABLE" in outcome.note
    assert server.connections == 0


@pytest.mark.parametrize("value", ["1", "", "true", "no", "2"])
def test_ras_that_is_left_on_is_asked(tmp_path, value):
    with FakeServer(SERVED) as server:
        stage = Stage(tmp_path, server.port)
        stage.environ["NCCL_RAS_ENABLE"] = value
        assert stage.collect(ready(stage.scene())).ending is Ending.DONE


def test_a_reply_of_another_job_is_said_and_not_taken_for_ours(tmp_path):
    with FakeServer(SERVED) as server:
        stage = Stage(tmp_path, server.port)
        stage.pids = (11, 12, 13, 14)
        outcome = stage.collect(ready(stage.scene()))
    assert outcome.ending is Ending.FAILED
    assert any("a different job answered 3 time(s)" in warning for warning in outcome.warnings)
    assert len(server.asked) == 3  # and no more: each costs that job a collection
    assert stage.evidence().of(RasPoll) == ()
    replies = json.loads(stage.record())["replies_of_another_job"]
    assert replies[0]["reply"].encode() == SERVED.json


def test_a_text_report_that_names_only_who_has_ended_is_ours(tmp_path):
    with FakeServer(era("2.27.5")) as server:
        stage = Stage(tmp_path, server.port)
        stage.pids = (6223, 6224, 6225)
        assert stage.collect(ready(stage.scene())).ending is Ending.DONE
    assert len(stage.replies()) == 2


def test_without_known_workers_no_reply_is_taken_for_anothers(tmp_path):
    with FakeServer(SERVED) as server:
        stage = Stage(tmp_path, server.port)
        stage.pids = (11,)
        scene = stage.scene()
        server_only = replace(scene.target.processes[0], role=Role.SERVER, rank=None)
        target = replace(scene.target, processes=(server_only,))
        assert stage.collect(ready(replace(scene, target=target))).ending is Ending.DONE


def test_a_process_whose_maps_cannot_be_read_to_the_end_holds_up_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(collector, "VERSION_SECONDS", 0.1)
    with FakeServer(SERVED) as server:
        stage = Stage(tmp_path, server.port)
        maps = stage.proc / "71" / "maps"
        os.mkfifo(maps)  # opening it waits for ever, as maps of a frozen process may
        outcome = stage.collect(ready(stage.scene()))
        os.close(os.open(maps, os.O_WRONLY | os.O_NONBLOCK))  # lets the thread go
    assert outcome.ending is Ending.DONE
    assert "could not be read" in stage.record()


def test_ours_is_found_beside_another_job_on_the_same_port(tmp_path):
    turn = iter(range(100))

    def handler(server: FakeServer, connection: socket.socket) -> None:
        # Connections in order: probe, events, poll, poll, ...
        fake_server.serve_era(server, connection, era("2.30.7", "rank-stops-calling") if next(turn) == 2 else SERVED)

    with FakeServer(handler=handler) as server:
        stage = Stage(tmp_path, server.port)
        outcome = stage.collect(ready(stage.scene()))
    assert outcome.ending is Ending.DONE
    assert stage.replies() == [SERVED.json] * 2
    assert any("a different job answered 1 time(s)" in warning for warning in outcome.warnings)


def test_a_risky_job_that_shares_the_port_is_never_asked_on_the_way(tmp_path):
    turn = iter(range(100))

    def handler(server: FakeServer, connection: socket.socket) -> None:
        fake_server.serve_era(server, connection, era("2.28.9") if next(turn) >= 2 else SERVED)

    with FakeServer(handler=handler) as server:
        stage = Stage(tmp_path, server.port, release="2.30.7")
        outcome = stage.collect(ready(stage.scene(risk=RasRisk.NEVER)))
    assert server.asked == []
    assert outcome.ending is Ending.DECLINED
    assert any("another job" in warning for warning in outcome.warnings)


def _addresses(server: FakeServer):
    return addresses(Endpoint("127.0.0.1", server.port), _deadline(1))


def _deadline(seconds: float):
    return Deadline.after(seconds)
