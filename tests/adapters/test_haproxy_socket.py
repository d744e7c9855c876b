"""HAProxy's socket as nobody wants it: gone, silent, endless, something else. Every call ends in words, in time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rankmuster.adapters.haproxy import Haproxy
from rankmuster.adapters.haproxy_socket import MAX_ANSWER, NotAsked, ask
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending, TrafficState

Behaviour = Callable[[socket.socket, threading.Event, bytes], None]


@contextmanager
def listening(path: Path, behave: Behaviour) -> Iterator[str]:
    """A socket that reads one command a connection and leaves the rest to `behave`."""
    over = threading.Event()
    threads: list[threading.Thread] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(0.02)

        def one(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.settimeout(5)
                    behave(connection, over, connection.recv(65536))
                except OSError:
                    pass  # the caller had enough

        def serve() -> None:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                threads.append(threading.Thread(target=one, args=(connection,)))
                threads[-1].start()

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield str(path)
        finally:
            over.set()
            serving.join()
            for thread in threads:
                thread.join()


def silent(connection: socket.socket, over: threading.Event, command: bytes) -> None:
    over.wait(20)


def drips(connection: socket.socket, over: threading.Event, command: bytes) -> None:
    while not over.wait(0.02):
        connection.sendall(b"#")


def endless(connection: socket.socket, over: threading.Event, command: bytes) -> None:
    while not over.is_set():
        connection.sendall(b"x" * 65536)


def says(data: bytes) -> Behaviour:
    return lambda connection, over, command: connection.sendall(data)


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (silent, "did not answer in time"),
        (drips, "did not answer in time"),
        (endless, f"more than {MAX_ANSWER >> 20} MiB"),
        (says(b""), "it answered nothing"),
        (says(b"HTTP/1.1 400 Bad request\r\n\r\n"), "HTTP/1.1 400 Bad request"),
        (says(bytes(range(256)) * 100), "it answered"),
        (says(b"1\n# be_id be_name\n1 b s\n"), "it answered"),
        (says("1\n# käse \u202e\n".encode()), "it answered"),
        (says(b"2\n# be_id be_name srv_admin_state\n"), "it answered"),
        (says(b"# pxname,svname,\nb,s,\n"), "it answered"),
        (says(b"Permission denied\n"), "Permission denied"),
    ],
)
def test_whatever_it_says_ends_in_words(tmp_path: Path, behave: Behaviour, words: str) -> None:
    with listening(tmp_path / "admin", behave) as path:
        one = Haproxy("front", [path], "b", "s")
        look = one.look(Deadline.after(0.6))
        assert look.state is TrafficState.UNKNOWN
        assert words in look.note
        assert look.note.isprintable()
        for answer in (one.stop_new("", Deadline.after(0.6)), one.cut("", Deadline.after(0.6))):
            assert answer.ending in (Ending.FAILED, Ending.TIMED_OUT)
            assert words in answer.note


def lies(connection: socket.socket, over: threading.Event, command: bytes) -> None:
    """Every command is answered as if it had been carried out, and nothing changes."""
    if command.startswith(b"show servers"):
        names = b"# be_name srv_name srv_op_state srv_admin_state srv_uweight srv_iweight"
        connection.sendall(b"1\n" + names + b"\nb s 2 0 100 100\n")
    elif command.startswith(b"show stat"):
        connection.sendall(b"# pxname,svname,qcur,scur,status\nb,s,0,3,UP\n")


def test_what_is_said_to_be_done_and_is_not_is_no_success(tmp_path: Path) -> None:
    with listening(tmp_path / "admin", lies) as path:
        one = Haproxy("front", [path], "b", "s")
        for answer in (
            one.stop_new("", Deadline.after(0.4)),
            one.cut("", Deadline.after(0.4)),
            one.set_weight(30, Deadline.after(0.4)),
        ):
            assert answer.ending is Ending.TIMED_OUT, answer
            assert "does not show" in answer.note


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/nowhere/admin.sock", "No such file"),
        ("/" + "x" * 200, "cannot be opened"),
        ("/dev/null", "cannot be opened"),
        ("no-port", "neither a path nor HOST:PORT"),
        ("host:0", "neither a path nor HOST:PORT"),
        ("host:käse", "neither a path nor HOST:PORT"),
        ("no.such.host.invalid:9999", "no connection could be made"),
    ],
)
def test_an_address_that_cannot_be_used_is_told(address: str, words: str) -> None:
    with pytest.raises(NotAsked, match=words) as refused:
        ask(address, "show info", Deadline.after(5.0))
    assert not refused.value.sent


def test_a_port_that_nobody_listens_at_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(NotAsked, match="Connection refused"):
            ask(f"127.0.0.1:{taken.getsockname()[1]}", "show info", Deadline.after(5.0))


def test_without_time_nothing_is_sent(tmp_path: Path) -> None:
    heard: list[bool] = []
    with (
        listening(tmp_path / "admin", lambda *_: heard.append(True)) as path,
        pytest.raises(NotAsked, match="no time left"),
    ):
        ask(path, "show info", Deadline.after(0.0))
    assert heard == []
