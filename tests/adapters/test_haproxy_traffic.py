"""A real HAProxy: who gets requests after each verb, and what clients see of it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from haproxy_server import Client, Engine, deployed, fetched, free_port, haproxy, needs_haproxy, wait_until
from rankmuster.adapters.haproxy import Haproxy
from rankmuster.adapters.haproxy_answers import read_state
from rankmuster.adapters.haproxy_socket import ask
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, TrafficState

pytestmark = needs_haproxy


def soon() -> Deadline:
    return Deadline.after(5.0)


@dataclass
class World:
    port: int
    admin: str
    engines: list[Engine]
    traffic: Haproxy

    def look(self) -> TrafficState:
        return self.traffic.look(soon()).state


@contextmanager
def world(folder: Path, servers: int = 1) -> Iterator[World]:
    with ExitStack() as stack:
        engines = [Engine(folder, f"llm-{number}") for number in range(servers)]
        for engine in engines:
            stack.callback(engine.kill)
        port, admin = free_port(), str(folder / "admin")
        stack.enter_context(haproxy(folder, deployed(port, admin, *(one.port for one in engines)), ready=admin))
        traffic = Haproxy("front", [admin], "llm", "llm-0")
        wait_until(lambda: fetched(port, "/warm").status == 200)
        yield World(port, admin, engines, traffic)


def refused_as(client: Client, reason: str) -> None:
    """It is the error that clients can tell from all others."""
    assert client.broken is None
    assert client.status == 503
    assert client.headers["retry-after"] == "30"
    assert client.headers["x-rankmuster-reason"] == reason
    assert json.loads(client.body)["error"]["type"] == "instance_recovering"


def test_after_stop_new_nothing_new_arrives_and_what_runs_goes_on(tmp_path: Path) -> None:
    with world(tmp_path) as one:
        kept = http.client.HTTPConnection("127.0.0.1", one.port, timeout=10)
        kept.request("GET", "/before")
        assert kept.getresponse().read() == b"ok"
        stream = Client(one.port, "/stream")
        assert stream.begun.wait(10)
        answer = one.traffic.stop_new("llm-0 has stopped", soon())
        assert answer.ending is Ending.DONE
        assert answer.data["running"] == 1
        before = len(one.engines[0].seen)
        for _ in range(5):
            refused_as(fetched(one.port, "/after"), "not_sent")
        kept.request("GET", "/kept-alive")
        assert kept.getresponse().status == 503
        kept.close()
        look = one.traffic.look(soon())
        assert (look.state, look.running, look.queued, look.percent) == (TrafficState.STOPPED, 1, 0, 100.0)
        assert len(one.engines[0].seen) == before
        one.engines[0].let_go()
        assert stream.over().broken is None
        wait_until(lambda: one.traffic.look(soon()).running == 0)
        again = one.traffic.stop_new("again", soon())
        assert (again.ending, "already" in again.note) == (Ending.DONE, True)


def test_another_server_takes_what_the_stopped_one_does_not(tmp_path: Path) -> None:
    with world(tmp_path, servers=2) as one:
        assert one.traffic.stop_new("", soon()).ending is Ending.DONE
        before = len(one.engines[0].seen)
        assert [fetched(one.port, "/after").status for _ in range(6)] == [200] * 6
        assert len(one.engines[0].seen) == before
        assert one.engines[1].seen.count("/after") == 6


def test_what_runs_at_the_cut_gets_an_error_that_says_so(tmp_path: Path) -> None:
    with world(tmp_path, servers=2) as one:
        # Three before headers, one within a streamed body, all at the server that is cut.
        assert Haproxy("other", [one.admin], "llm", "llm-1").stop_new("", soon()).ending is Ending.DONE
        waiting = [Client(one.port, f"/hang/{number}") for number in range(3)]
        stream = Client(one.port, "/stream")
        assert stream.begun.wait(10)
        wait_until(lambda: len([path for path in one.engines[0].seen if "/hang" in path]) == 3)
        assert Haproxy("other", [one.admin], "llm", "llm-1").restore(soon()).ending is Ending.DONE
        assert one.traffic.stop_new("", soon()).ending is Ending.DONE
        answer = one.traffic.cut("llm-0 is rebuilt", soon())
        assert answer.ending is Ending.DONE, answer
        assert answer.data["requests"] == 4
        for client in waiting:
            refused_as(client.over(), "ended")
        # Its 200 is out: nothing can be said any more but that it did not end.
        assert isinstance(stream.over().broken, http.client.IncompleteRead)
        assert stream.status == 200
        assert stream.body.startswith(b"token")
        # Nothing was given to the engines a second time.
        assert not [path for path in one.engines[1].seen if "/hang" in path or "/stream" in path]
        assert len([path for path in one.engines[0].seen if "/hang" in path]) == 3
        assert one.look() is TrafficState.CUT
        assert one.traffic.cut("", soon()).data["requests"] == 0


def test_what_runs_when_the_process_dies_gets_it_too(tmp_path: Path) -> None:
    with world(tmp_path, servers=1) as one:
        waiting, stream = Client(one.port, "/hang"), Client(one.port, "/stream")
        assert stream.begun.wait(10)
        wait_until(lambda: "/hang" in one.engines[0].seen)
        one.engines[0].kill()
        refused_as(waiting.over(), "ended")
        assert isinstance(stream.over().broken, http.client.IncompleteRead)
        refused_as(fetched(one.port, "/after"), "not_sent")
        wait_until(lambda: "health check says DOWN" in one.traffic.look(soon()).note)


def test_a_full_queue_and_an_engine_that_is_silent_are_told_apart(tmp_path: Path) -> None:
    engine = Engine(tmp_path, "llm-0")
    try:
        port, admin = free_port(), str(tmp_path / "admin")
        config = deployed(port, admin, engine.port).replace("timeout queue 30s", "timeout queue 200ms")
        config = config.replace("timeout server 10m", "timeout server 2s").replace("weight 100", "weight 100 maxconn 1")
        with haproxy(tmp_path, config, ready=admin):
            wait_until(lambda: fetched(port, "/warm").status == 200)
            silent = Client(port, "/hang")
            wait_until(lambda: "/hang" in engine.seen)
            refused_as(fetched(port, "/queued"), "busy")
            refused_as(silent.over(), "no_answer")
            assert "/queued" not in engine.seen
            assert engine.seen.count("/hang") == 1
    finally:
        engine.kill()


def test_errors_of_the_engine_itself_are_left_as_they_are(tmp_path: Path) -> None:
    with world(tmp_path) as one:
        own = fetched(one.port, "/own-502")
        assert (own.status, own.body, own.headers.get("x-rankmuster-reason")) == (502, b"ok", None)


def test_restored_is_ready_at_full_weight_once_its_health_check_agrees(tmp_path: Path) -> None:
    with world(tmp_path) as one:
        assert one.traffic.set_weight(30, soon()).ending is Ending.DONE
        assert one.traffic.stop_new("", soon()).ending is Ending.DONE
        one.engines[0].kill()
        wait_until(lambda: _down(one))
        told(one.traffic.restore(Deadline.after(0.6)), Ending.PARTIAL, "health check says DOWN")
        one.engines[0].start()
        answer = one.traffic.restore(soon())
        assert answer.ending is Ending.DONE, answer
        look = one.traffic.look(soon())
        assert (look.state, look.percent) == (TrafficState.READY, 100.0)
        assert fetched(one.port, "/back").status == 200
        assert one.traffic.restore(soon()).ending is Ending.DONE


def _down(one: World) -> bool:
    """Whether its health check has found it down, which HAProxy does not tell in the status of one in drain."""
    state = ask(one.admin, "show servers state llm", soon())
    return read_state(state, "llm", "llm-0").op == 0


def test_out_of_maintenance_it_is_up_until_a_check_fails(tmp_path: Path) -> None:
    with world(tmp_path) as one:
        assert one.traffic.cut("", soon()).ending is Ending.DONE
        one.engines[0].kill()
        # HAProxy's way: whoever restores has to have asked the instance itself before.
        assert one.traffic.restore(soon()).ending is Ending.DONE
        wait_until(lambda: _down(one))
        assert one.look() is TrafficState.READY


def test_a_weight_is_of_its_own_full_weight(tmp_path: Path) -> None:
    with world(tmp_path, servers=2) as one:
        for percent, weight in ((30.0, 30), (0.4, 1), (0.0, 0), (100.0, 100)):
            answer = one.traffic.set_weight(percent, soon())
            assert answer.ending is Ending.DONE
            assert answer.data["sockets"][one.admin]["weight"] == weight
            assert one.traffic.look(soon()).percent == float(weight)
        halved = Haproxy("front", [one.admin], "llm", "llm-0", full_weight=50)
        assert halved.set_weight(30, soon()).data["sockets"][one.admin]["weight"] == 15
        assert halved.look(soon()).percent == 30.0
        assert halved.restore(soon()).ending is Ending.DONE
        assert one.traffic.look(soon()).percent == 50.0
        assert one.traffic.restore(soon()).ending is Ending.DONE
        assert one.traffic.look(soon()).percent == 100.0


ODD = """
global
  stats socket {admin} mode 600 level admin
  stats socket {user} mode 600 level user
  stats socket ipv4@127.0.0.1:{tcp} level admin
defaults
  mode http
  timeout connect 1s
  timeout client 5s
  timeout server 5s
backend light
  server s 127.0.0.1:9
backend static
  balance static-rr
  server s 127.0.0.1:9 weight 100
backend bound
  cookie SRV insert
  server s 127.0.0.1:9 cookie s
backend off
  server s 127.0.0.1:9 check inter 1h disabled
backend follows
  server s 127.0.0.1:9 track off/s
"""


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[dict[str, str]]:
    names = {"admin": str(tmp_path / "a"), "user": str(tmp_path / "u"), "tcp": str(free_port())}
    with haproxy(tmp_path, ODD.format(**names), ready=names["admin"]):
        yield names


def told(answer: Answer, ending: Ending, *words: str) -> None:
    assert answer.ending is ending, answer
    for one in words:
        assert one in answer.note, answer


def test_what_haproxy_refuses_is_told_in_its_own_words(odd: dict[str, str]) -> None:
    admin = odd["admin"]
    light = Haproxy("front", [admin], "light", "s")
    told(light.set_weight(30, soon()), Ending.REFUSED, "no whole weight", "weights of about 100")
    assert light.look(soon()).percent == 100.0
    told(Haproxy("front", [admin], "static", "s").set_weight(30, soon()), Ending.REFUSED, "static LB algorithm")
    denied = Haproxy("front", [odd["user"]], "light", "s")
    told(denied.stop_new("", soon()), Ending.REFUSED, "Permission denied", "level admin")
    assert denied.look(soon()).state is TrafficState.READY
    for backend, server, words in (("light", "t", "No such server"), ("dark", "s", "Can't find backend")):
        unknown = Haproxy("front", [admin], backend, server)
        look = unknown.look(soon())
        assert (look.state, words in look.note) == (TrafficState.ABSENT, True)
        for answer in (unknown.stop_new("", soon()), unknown.cut("", soon()), unknown.restore(soon())):
            told(answer, Ending.REFUSED, words)


def test_the_socket_may_be_a_port_too(odd: dict[str, str]) -> None:
    by_port = Haproxy("front", [f"127.0.0.1:{odd['tcp']}"], "light", "s")
    told(by_port.stop_new("", soon()), Ending.DONE, "in drain")
    assert Haproxy("front", [odd["admin"]], "light", "s").look(soon()).state is TrafficState.STOPPED


def test_requests_that_are_bound_to_it_are_warned_of(odd: dict[str, str]) -> None:
    told(Haproxy("front", [odd["admin"]], "bound", "s").stop_new("", soon()), Ending.DONE, "cookie", "still come")


def test_maintenance_of_others_is_seen_and_one_by_tracking_cannot_be_undone(odd: dict[str, str]) -> None:
    off = Haproxy("front", [odd["admin"]], "off", "s")
    assert off.look(soon()).state is TrafficState.CUT
    stopped = off.stop_new("", soon())
    told(stopped, Ending.DONE, "already")
    assert stopped.data["sockets"][odd["admin"]]["before"] == "maint"
    follows = Haproxy("front", [odd["admin"]], "follows", "s")
    assert follows.look(soon()).state is TrafficState.CUT
    told(follows.restore(Deadline.after(0.6)), Ending.TIMED_OUT, "ready does not show")


def test_several_processes_are_one_gateway_and_a_half_applied_verb_says_where(tmp_path: Path) -> None:
    admins = [str(tmp_path / name) for name in ("a", "b")]
    text = ODD.replace("stats socket {user} mode 600 level user", "").replace(
        "stats socket ipv4@127.0.0.1:{tcp} level admin", ""
    )
    both = Haproxy("front", admins, "light", "s")
    with haproxy(tmp_path, text.format(admin=admins[0]), ready=admins[0]):
        assert both.look(soon()).state is TrafficState.UNKNOWN
        half = both.stop_new("", soon())
        told(half, Ending.PARTIAL, "1 of 2", admins[1], "No such file")
        assert half.data["sockets"][admins[0]]["before"] == "ready"
        with haproxy(tmp_path, text.format(admin=admins[1]), ready=admins[1]):
            assert both.look(soon()).state is TrafficState.MIXED
            told(both.stop_new("", soon()), Ending.DONE, "already")
            assert both.look(soon()).state is TrafficState.STOPPED
            assert both.cut("", soon()).ending is Ending.DONE
            assert both.look(soon()).state is TrafficState.CUT
        # Restarted, it has forgotten everything.
        with haproxy(tmp_path, text.format(admin=admins[1]), ready=admins[1]):
            assert both.look(soon()).state is TrafficState.MIXED
            assert Haproxy("front", admins[1:], "light", "s").look(soon()).state is TrafficState.READY


def test_a_process_that_hangs_holds_up_none_of_the_others(odd: dict[str, str], tmp_path: Path) -> None:
    stuck = str(tmp_path / "stuck")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(stuck)
        listener.listen()
        both = Haproxy("front", [stuck, odd["admin"]], "light", "s")
        told(both.stop_new("", Deadline.after(0.5)), Ending.PARTIAL, f"{stuck}: it took the command")
    assert Haproxy("front", [odd["admin"]], "light", "s").look(soon()).state is TrafficState.STOPPED


def test_what_would_be_sent_is_what_is_sent(odd: dict[str, str], tmp_path: Path) -> None:
    with _recorded(tmp_path / "between", odd["admin"]) as (path, sent):
        one = Haproxy("front", [path], "light", "s", full_weight=80)
        one.set_weight(30, soon())
        one.stop_new("", soon())
        one.restore(soon())
        one.cut("", soon())
    changes = [f"{path}: {command}" for command in sent if not command.startswith("show")]
    would = [one.would("set_weight", percent=30), one.would("stop_new"), one.would("restore"), one.would("cut")]
    # Nothing runs there: the sessions that would be shut are not.
    assert changes == [line for lines in would for line in lines if "shutdown" not in line]


@contextmanager
def _recorded(path: Path, behind: str) -> Iterator[tuple[str, list[str]]]:
    """A socket that passes each command on, and the list of them."""
    sent: list[str] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                connection, _ = listener.accept()
                with connection, socket.socket(socket.AF_UNIX) as real:
                    command = connection.recv(65536)
                    if command == b"end\n":
                        return
                    sent.append(command.decode().strip())
                    real.connect(behind)
                    real.sendall(command)
                    while data := real.recv(65536):
                        connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield str(path), sent
        finally:
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(path))
                last.sendall(b"end\n")
            thread.join()
