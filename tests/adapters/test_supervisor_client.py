"""The client of `rankmuster run` against supervisors that hang, lie, end, or are not there."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rankmuster.adapters import supervisor_wire as wire
from rankmuster.adapters.supervisor import Supervisor
from rankmuster.collect.deadline import Deadline
from rankmuster.incident.actuators import Group, Verb
from rankmuster.model.incident import Answer, Ending, GroupState, StartWish

Answers = Callable[[socket.socket], None]


@pytest.fixture
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Answers], Supervisor]]:
    """A supervisor that does with each caller what the test says."""
    folder = tmp_path_factory.mktemp("s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "x.sock"))
    listener.listen(4)
    stop = threading.Event()

    def start(answers: Answers) -> Supervisor:
        def loop() -> None:
            while not stop.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    answers(connection)

        threading.Thread(target=loop, daemon=True).start()
        return Supervisor("llm-0", folder / "x.sock")

    yield start
    stop.set()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def says(data: bytes) -> Answers:
    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        with contextlib.suppress(OSError):  # of what is too long the rest is not taken
            connection.sendall(data)

    return answer


def all_three(client: Supervisor, seconds: float = 5.0) -> tuple[GroupState, Answer, Answer]:
    return (
        client.look(Deadline.after(seconds)).state,
        client.terminate("x", "i/terminate/a", Deadline.after(seconds)),
        client.start("x", "i/start/a", StartWish(), Deadline.after(seconds)),
    )


def test_it_is_a_group() -> None:
    group: Group = Supervisor("llm-0", Path("/x.sock"))
    assert group.name == "llm-0"
    assert not group.elsewhere


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"ok\n",
        b"[]\n",
        b'{"v":2}\n',
        b'{"v":1}\n',
        b'{"v":1,"look":{"state":"fine"},"answer":{"ending":"splendid"}}\n',
        b'{"v":1,"look":{"state":"running","incarnation":7},"answer":{"ending":null}}\n',
        b'{"v":1,"look":[],"answer":[]}\n',
        b"\xff" * 100 + b"\n",
        b"x" * (wire.MAX_ANSWER + 70_000),
        b'{"v":1,"error":"no \xc3\xa9"}\n',
        b'{"v":1,"look":{"state":"running"}',
    ],
)
def test_what_is_no_answer_is_nothing_done(serve: Callable[[Answers], Supervisor], data: bytes) -> None:
    state, ended, started = all_three(serve(says(data)))
    assert state is GroupState.UNKNOWN
    assert ended.ending is Ending.FAILED
    assert started.ending is Ending.FAILED
    assert ended.note


def test_one_that_says_nothing_is_left_at_the_deadline(serve: Callable[[Answers], Supervisor]) -> None:
    go = threading.Event()
    client = serve(lambda connection: go.wait(20) and None)
    answer = client.terminate("x", "i/terminate/a", Deadline.after(0.7))
    assert answer.ending is Ending.TIMED_OUT
    assert answer.data["sent"] is True
    go.set()


def test_one_that_drips_is_left_at_the_deadline(serve: Callable[[Answers], Supervisor]) -> None:
    stop = threading.Event()

    def drip(connection: socket.socket) -> None:
        try:
            while not stop.wait(0.05):
                connection.sendall(b" ")
        except OSError:
            pass

    client = serve(drip)
    assert client.look(Deadline.after(0.6)).state is GroupState.UNKNOWN
    stop.set()


def test_nobody_there_is_not_the_end_of_the_group(tmp_path: Path) -> None:
    state, ended, started = all_three(Supervisor("llm-0", tmp_path / "no.sock"))
    assert state is GroupState.UNKNOWN
    assert ended.ending is started.ending is Ending.FAILED
    assert "rankmuster run" in ended.note
    assert ended.data["sent"] is False
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "stale.sock"))
    assert Supervisor("llm-0", tmp_path / "stale.sock").look(Deadline.after(5.0)).state is GroupState.UNKNOWN


def test_a_full_queue_is_waited_for_and_left(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("q") / "x.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(str(path))
        answer = Supervisor("llm-0", path).terminate("x", "i/terminate/a", Deadline.after(0.8))
        assert answer.ending is Ending.TIMED_OUT
        for one in waiting:
            one.close()


def test_a_deadline_that_has_passed_asks_nobody(tmp_path: Path) -> None:
    answer = Supervisor("llm-0", tmp_path / "no.sock").terminate("x", "i/terminate/a", Deadline.after(0.0))
    assert answer.ending is Ending.TIMED_OUT


def test_odd_values_are_left_out(serve: Callable[[Answers], Supervisor]) -> None:
    look = {"state": "partly", "pids": [1, "2", True, None], "hosts": ["a", 3], "exit_status": "7", "at": True}
    client = serve(says(json.dumps({"v": 1, "look": look, "about": "x"}).encode() + b"\n"))
    seen = client.look(Deadline.after(5.0))
    assert (seen.state, seen.pids, seen.hosts, seen.exit_status, seen.at) == (
        GroupState.PARTLY,
        (1,),
        ("a",),
        None,
        None,
    )
    assert client.about(Deadline.after(5.0)) == {}


def test_what_it_would_do_has_no_values_of_variables() -> None:
    client = Supervisor("llm-0", Path("/run/x.sock"))
    wish = StartWish(environment={"TOKEN": "secret"}, suspect="transport_stall")
    lines = client.would(Verb.START, incarnation="i", wish=wish)
    assert any("TOKEN" in line for line in lines)
    assert any("transport_stall" in line for line in lines)
    assert not any("secret" in line for line in lines)
    assert client.would(Verb.TERMINATE, incarnation="i") == ("/run/x.sock: terminate the whole group of incarnation i",)


@pytest.mark.parametrize("name", ["", "a/b", "../x", "é", "x" * 64, ".x", "a b"])
def test_names_that_are_no_files_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        wire.socket_path(Path("/run"), name)


def test_the_folder_is_the_machines_or_the_users(tmp_path: Path) -> None:
    assert wire.default_run_folder({}, tmp_path) == tmp_path / "rankmuster" / "run"
    closed = tmp_path / "no"
    assert wire.default_run_folder({"XDG_RUNTIME_DIR": "/run/user/7"}, closed) == Path("/run/user/7/rankmuster/run")
    assert wire.default_run_folder({"HOME": "/h"}, closed) == Path("/h/.local/state/rankmuster/run")
