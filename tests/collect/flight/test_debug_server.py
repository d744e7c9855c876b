"""Worker servers are asked only where they are known to be, for what is wanted, and never beyond the deadline."""

from __future__ import annotations

import json
import os
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from flight_job import HEALTHY, STOPPED, UNKNOWN, dump, json_dump, ticks
from odd_servers import Behaviour, absurd_length, closes, drips, endless, garbage, says, serving, short, silent

from rankmuster.collect.collector import Assessment, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.flight.debug_server import DebugServer
from rankmuster.collect.flight.http_reply import NoReply, exchange
from rankmuster.collect.flight.tcp_store import StoreSilent, read_keys
from rankmuster.collect.flight.worker_server import SERVER_THREAD, configured
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Store
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.collect.wishes import Wishes

GLOO = "fr_trace_json"
NCCL = "dump_nccl_trace_json"
STACKS = "dump_nccl_trace_pickle"


class Handler(BaseHTTPRequestHandler):
    """What torch's WorkerServer does: a list by GET, dumps by POST."""

    names: tuple[str, ...] = (GLOO, NCCL, STACKS, "ping")
    asked: list[str]

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def address_string(self) -> str:
        return "unix"

    def do_GET(self) -> None:
        self._say(json.dumps(self.names).encode())

    def do_POST(self) -> None:
        self.asked.append(self.path)
        name = self.path.removeprefix("/handler/").partition("?")[0]
        if name == STACKS:
            self._say(dump(time.time()))
        elif name in (GLOO, NCCL):
            self._say(json_dump(time.time(), {"0": "[0, 1]"}))
        else:
            self.send_error(404)

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def thread_of_torch() -> Iterator[None]:
    """This test's process runs a thread by the name of torch's server."""
    over, named = threading.Event(), threading.Event()

    def run() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(SERVER_THREAD)
        named.set()
        over.wait(60)

    thread = threading.Thread(target=run)
    thread.start()
    named.wait(10)
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def worker_server(path: Path) -> Iterator[list[str]]:
    """A worker server below a Unix socket; yields the paths that it is asked for."""
    asked: list[str] = []
    handler = type("Own", (Handler,), {"asked": asked})
    with UnixServer(str(path), handler) as server, thread_of_torch():
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()


def worker(environ: dict[str, str], rank: int | None = 1, root: Path = Path("/")) -> ProcessOfInstance:
    pid = os.getpid()
    return ProcessOfInstance(
        pid, pid, pid, ticks(pid), 0.0, Role.WORKER, "python", rank=rank, environ=environ, root=root
    )


def collect(
    store: Store,
    process: ProcessOfInstance | None,
    *,
    addresses: tuple[str, ...] = (),
    wishes: Wishes | None = None,
    assessment: Assessment = STOPPED,
    seconds: float = 20.0,
) -> Outcome:
    target = Target("llm-0", "a7", (process,)) if process else None
    scene = Scene(target, Machine(hostname="a7"), wishes or Wishes(look_seconds=0.05))
    scene.board.post_assessment(assessment)
    return DebugServer(addresses=addresses).collect(scene, store.sink("flight-http"), Deadline.after(seconds))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "bundle")


def paths(store: Store) -> list[str]:
    return sorted(piece.path for piece in store.pieces())


JSONS = [
    "flight/fr_trace_rank_1-2.json",
    "flight/fr_trace_rank_1.json",
    "flight/nccl_trace_rank_1-2.json",
    "flight/nccl_trace_rank_1.json",
]


@pytest.mark.parametrize("assessment", [STOPPED, UNKNOWN])
def test_both_recorders_twice_and_stacks_once(store: Store, tmp_path: Path, assessment: Assessment) -> None:
    path = tmp_path / "socket"
    with worker_server(path) as asked:
        outcome = collect(store, worker({"TORCH_WORKER_SERVER_SOCKET": str(path)}), assessment=assessment)
    assert outcome.ending is Ending.DONE, outcome
    assert paths(store) == sorted([*JSONS, "flight/nccl_trace_rank_1"])
    assert {(piece.rank, piece.host) for piece in store.pieces()} == {(1, "a7")}
    assert all(abs((piece.look_time or 0) - time.time()) < 60 for piece in store.pieces())
    assert asked[-1].endswith("?includecollectives=true&includestacktraces=true&onlyactive=false")


def test_a_healthy_instance_is_not_asked_for_stacks(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with worker_server(path) as asked:
        outcome = collect(store, worker({"TORCH_WORKER_SERVER_SOCKET": str(path)}), assessment=HEALTHY)
    assert paths(store) == JSONS
    assert not any(STACKS in request for request in asked)
    assert outcome.ending is Ending.DONE
    assert "--dumps always asks all the same" in outcome.note


def test_a_socket_is_found_below_the_processes_own_root(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "root").mkdir()
    monkeypatch.chdir(tmp_path / "root")  # so that the kernel knows the socket by the name that the process gives it
    with worker_server(Path("s")):
        outcome = collect(store, worker({"TORCH_WORKER_SERVER_SOCKET": "s"}, root=tmp_path / "root"))
    assert outcome.ending is Ending.DONE


def test_another_processes_socket_is_not_asked(store: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "absent", "\x00abstract"):
        with thread_of_torch():
            outcome = collect(store, worker({"TORCH_WORKER_SERVER_SOCKET": str(tmp_path / name)}))
        assert outcome.ending is Ending.FAILED
        assert "does not listen on" in outcome.note


def test_without_torchs_thread_nothing_is_asked(store: Store) -> None:
    with serving(closes) as (port, came):
        outcome = collect(store, worker({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}))
        assert came == []
    assert outcome.ending is Ending.NOTHING


def test_no_instance(store: Store) -> None:
    assert collect(store, None).ending is Ending.NOTHING


@pytest.mark.parametrize("behaviour", [silent, closes, garbage, drips, endless])
def test_a_store_that_is_none_ends_in_time(store: Store, behaviour: Behaviour) -> None:
    with serving(behaviour) as (port, _), thread_of_torch():
        begun = time.monotonic()
        outcome = collect(store, worker({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}), seconds=0.5)
        assert time.monotonic() - begun < 10
    assert outcome.ending is Ending.FAILED
    assert f"127.0.0.1:{port}" in outcome.note


def test_a_store_with_an_absurd_value() -> None:
    nonce = (os.getpid() & 0xFFFFFFFF).to_bytes(4, "little")
    with serving(says(nonce + b"\0" + b"\xff" * 8)) as (port, _), pytest.raises(StoreSilent, match="bytes"):
        read_keys("127.0.0.1", port, ["debug_server/rank0"], Deadline.after(5))


@pytest.mark.parametrize("setting", [{}, {"MASTER_ADDR": "h", "MASTER_PORT": "x" * 50}, {"MASTER_ADDR": "h"}])
def test_an_environment_that_tells_no_address(store: Store, setting: dict[str, str]) -> None:
    with thread_of_torch():
        outcome = collect(store, worker(setting))
    assert outcome.ending is Ending.FAILED
    assert "does not tell" in outcome.note


@pytest.mark.parametrize("behaviour", [silent, closes, garbage, drips, endless, short, absurd_length])
def test_a_named_server_that_misbehaves_ends_in_time(store: Store, behaviour: Behaviour) -> None:
    with serving(behaviour) as (port, _):
        begun = time.monotonic()
        outcome = collect(store, None, addresses=(f"5=http://127.0.0.1:{port}",), seconds=0.5)
        assert time.monotonic() - begun < 10
    assert outcome.ending is Ending.FAILED
    assert "rank 5" in outcome.note
    assert paths(store) == []


def test_what_is_no_dump_is_not_kept(store: Store) -> None:
    body = json.dumps([GLOO]).encode()
    with serving(says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))) as (port, _):
        outcome = collect(store, None, addresses=(f"http://127.0.0.1:{port}",), seconds=2)
    assert paths(store) == []
    assert "no dump" in outcome.note


def test_addresses_are_read_or_refused() -> None:
    good = ("http://a7:25999", "3=http://10.0.0.7:1/", "http://[::1]:80")
    servers, problems = configured((*good, "ftp://x:1", "http://x:99999", "http://u:p@x:1", "", "4=x"))
    assert [(server.rank, server.hosts, server.port) for server in servers] == [
        (None, ("a7",), 25999),
        (3, ("10.0.0.7",), 1),
        (None, ("::1",), 80),
    ]
    assert len(problems) == 5


def test_a_reply_in_pieces_and_chunks() -> None:
    import socket

    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"

    def reply(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        for byte in chunked:
            connection.sendall(bytes((byte,)))

    with serving(reply) as (port, _):
        found = exchange(socket.create_connection(("127.0.0.1", port)), "POST", "/handler/x", Deadline.after(5))
        assert (found.status, found.body) == (200, b"abcde")
    with serving(closes) as (port, _), pytest.raises(NoReply, match="without a word"):
        exchange(socket.create_connection(("127.0.0.1", port)), "GET", "/", Deadline.after(5))
