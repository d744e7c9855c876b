"""A RAS service that replays captures byte for byte, one per era of NCCL, over real sockets; and bad services.

Command set and error texts per release: NCCL src/ras/client_support.cc, rasClientEventLoop. The server also watches its
client: whatever a live job would suffer from is noted in `violations`.

Captures are from a job of four H200s with NCCL 2.28.9. Where an era has no capture, the nearest one is written as that
release writes it: other version line, one total instead of counts per operation (2.24, 2.25), two decimals (before
2.28.7), a comma where 2.28.7 to 2.28.9 forgot it (2.29.2 and later).
"""

from __future__ import annotations

import re
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

REPLIES = Path(__file__).with_name("replies")

KILLED_PIDS = (6223, 6224, 6225, 6226)
STOPPED_PIDS = (5890, 5891, 5892, 5893)


def capture(name: str) -> bytes:
    """A captured reply."""
    return (REPLIES / name).read_bytes()


def as_release(reply: bytes, release: str) -> bytes:
    """A captured reply as another release writes it."""
    number = tuple(int(part) for part in release.split("."))
    reply = reply.replace(b"2.28.9", release.encode())
    if number >= (2, 29, 2):
        reply = re.sub(rb'("nvml_dev": \d+)(\s+"status")', rb"\1,\2", reply)
    if number < (2, 28, 7):
        reply = re.sub(rb"\((\d+\.\d\d)\ds\)", rb"(\1s)", reply)
    if number < (2, 26, 2):
        reply = re.sub(rb"different \w+ operation counts", b"different collective operation counts", reply)
        first, _, rest = reply.partition(b"\n\n  Communicator ranks have")
        reply = first + b"\n\n" if rest else first
    return reply


EVENT = b"""{
  "timestamp": "2026-11-29 21:08:35",
  "group": "LIFECYCLE",
  "event": "PEER_DEAD",
  "peer": {
    "host": "192.0.2.2",
    "pid": 6226,
    "cuda_devs": [3],
    "nvml_devs": [3]
  },
  "details": ""
}
"""

DIAGNOSTICS = b"""=== RAS Diagnostics ===
node1:6223 NCCL DIAG [OK]   GPU inventory: 4x NVIDIA H200 per node consistent across 4 ranks in comm 0x55af3ae9081d7fb3
node1:6223 NCCL DIAG [INFO] Xid/SXid: no kernel-log source was available on host node1
RAS diagnostics completed in 12.3 ms across 4 RAS peers
"""


@dataclass(frozen=True)
class Era:
    """What a release can do, and what it replies. `json` None: the release has no JSON."""

    release: str
    text: bytes
    json: bytes | None = None
    monitor: bytes | None = None
    diagnostics: bytes | None = None
    control: bool = False
    fractions: bool = False

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.release.split("."))


def era(release: str, story: str = "rank-killed") -> Era:
    """The era of a release, replaying one of the captures `rank-killed` and `rank-stops-calling`."""
    number = tuple(int(part) for part in release.split("."))
    text = as_release(capture(f"{story}-2.28.9.txt"), release)
    json = as_release(capture(f"{story}-2.28.9.json"), release)
    return Era(
        release,
        text,
        json if number >= (2, 28, 7) else None,
        EVENT if number >= (2, 29, 2) else None,
        DIAGNOSTICS if number >= (2, 31, 2) else None,
        control=number >= (2, 31, 2),
        fractions=number >= (2, 32, 3),
    )


ERAS = ("2.24.3", "2.25.1", "2.26.2", "2.27.5", "2.28.3", "2.28.7", "2.28.9", "2.29.2", "2.30.7", "2.31.2", "2.32.3")

Handler = Callable[["FakeServer", socket.socket], None]


@dataclass
class FakeServer:
    """Listens on every given address at one port, a thread per connection. Use as a context manager.

    `handler`: what it does with a connection; default: serves `era`. `linger`: seconds between the request for a report
    and the report, in which a client that sends or half-closes is noticed. `commands`: every line received, in order.
    `hosts`: addresses; `reuse`: others may listen on the port too (SO_REUSEPORT, as NCCL does). `port` 0: any.
    """

    era: Era | None = None
    handler: Handler | None = None
    hosts: tuple[str, ...] = ("127.0.0.1",)
    port: int = 0
    reuse: bool = False
    linger: float = 0.01
    violations: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    connections: int = 0

    def __enter__(self) -> FakeServer:
        self._closing = threading.Event()
        self._open: list[socket.socket] = []
        self._listeners: list[socket.socket] = []
        for host in self.hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self.reuse:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((host, self.port))
            self.port = listener.getsockname()[1]
            listener.listen(64)
            self._listeners.append(listener)
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._wake.send(b".")
        self._thread.join(5)
        for one in (*self._listeners, *self._open, self._wake, self._woken):
            one.close()

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

    def pause(self, seconds: float) -> bool:
        """Waits; True when the server is being closed meanwhile."""
        return self._closing.wait(seconds)

    @property
    def asked(self) -> list[str]:
        """The requests for reports among the commands."""
        return [one for one in self.commands if one in ("STATUS", "VERBOSE STATUS")]

    def _accept(self) -> None:
        while not self.closing:
            ready, _, _ = select.select([*self._listeners, self._woken], [], [])
            for listener in set(ready) - {self._woken}:
                connection, _ = listener.accept()
                self.connections += 1
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self.handler is not None:
                self.handler(self, connection)
            else:
                assert self.era is not None
                serve_era(self, connection, self.era)
        except OSError:
            pass  # the client left, or the test is over
        finally:
            connection.close()

    # Pieces for handlers

    def lines(self, connection: socket.socket):
        """Lines as NCCL reads them: without their end, in upper case; a line that is too long ends the connection."""
        buffer = b""
        while True:
            while b"\n" not in buffer:
                if len(buffer) >= 1024:
                    self.violations.append("a line of 1024 bytes or more")
                    return
                piece = connection.recv(1024)
                if not piece:
                    return
                buffer += piece
            line, _, buffer = buffer.partition(b"\n")
            text = line.rstrip(b"\r").decode("ascii")
            self.commands.append(text)
            yield text
            if buffer and text in ("STATUS", "VERBOSE STATUS", "DIAGNOSTICS"):
                self.violations.append(f"{len(buffer)} bytes were sent behind {text}")

    def watch(self, connection: socket.socket, seconds: float, command: str) -> None:
        """Waits before a report, and notes what the client does meanwhile."""
        ready, _, _ = select.select([connection], [], [], seconds)
        if not ready:
            return
        more = connection.recv(4096)
        if more:
            self.violations.append(f"{more[:40]!r} was sent after {command}")
        else:
            self.violations.append(f"the connection was half-closed, or closed, after {command}")


def greet(server: FakeServer, connection: socket.socket):
    """Answers the handshake; the lines that follow."""
    lines = server.lines(connection)
    if next(lines, "").upper().startswith("CLIENT PROTOCOL "):
        connection.sendall(b"SERVER PROTOCOL 2\n")
    return lines


def serve_era(server: FakeServer, connection: socket.socket, of: Era) -> None:
    """The command loop of a release."""
    form = "text"
    for line in server.lines(connection):
        upper = line.upper()
        answer = answer_of(upper, line, of)
        if upper in ("STATUS", "VERBOSE STATUS"):
            server.watch(connection, server.linger, upper)
            report = of.json if form == "json" and of.json is not None else of.text
            connection.sendall(report)
            close(connection)
            return
        if upper == "SET FORMAT JSON" and of.json is not None:
            form = "json"
        elif upper == "DIAGNOSTICS" and of.diagnostics is not None:
            server.watch(connection, server.linger, upper)
            refusal = b"ERROR: diagnostics only supports text output\n"
            connection.sendall(refusal if form == "json" else of.diagnostics)
            close(connection)
            return
        elif upper.startswith("MONITOR") and answer == "OK" and of.monitor is not None:
            connection.sendall(b"OK\n" + of.monitor)
            continue
        connection.sendall(answer.encode() + b"\n")
        if upper.startswith("CONTROL") and upper != "CONTROL X":
            server.violations.append(f"{line!r} changes the job")


def answer_of(upper: str, line: str, of: Era) -> str:
    """The one-line answer of a release to a command."""
    word = line.split(" ", 1)[1] if " " in line else ""
    if upper.startswith("CLIENT PROTOCOL "):
        return "SERVER PROTOCOL 2"
    if upper.startswith("TIMEOUT "):
        whole = word.isdigit()
        fraction = re.fullmatch(r"\d+\.\d+", word) is not None and of.fractions
        return "OK" if whole or fraction else f"ERROR: Invalid timeout value {word}"
    if upper.startswith("SET FORMAT ") and of.json is not None:
        name = word.split(" ", 1)[1]
        return "OK" if name.lower() in ("text", "json") else f"ERROR: Invalid format {name}"
    if upper.startswith("MONITOR") and of.monitor is not None:
        groups = word.lower().split(",") if word else ["lifecycle"]
        bad = next((group for group in groups if group not in ("lifecycle", "trace", "all")), None)
        return "OK" if bad is None else f"ERROR: Invalid event group '{bad}'"
    if upper.startswith("CONTROL ") and of.control:
        return "OK" if upper.startswith("CONTROL PROFILER_MASK") else f"ERROR: Unknown CONTROL subcommand '{word}'"
    return f"ERROR: Unknown command {line}"


def close(connection: socket.socket) -> None:
    """As the server does after a report."""
    connection.close()


def reset(connection: socket.socket) -> None:
    """Breaks the connection off (RST)."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# Services that misbehave


def silent(server: FakeServer, connection: socket.socket) -> None:
    """Accepts and never answers: what a stopped process's kernel does for it."""
    server.pause(60)


def closes_at_once(server: FakeServer, connection: socket.socket) -> None:
    """Accepts and closes."""
    close(connection)


def closes_after_handshake(server: FakeServer, connection: socket.socket) -> None:
    """Greets and closes."""
    greet(server, connection)
    close(connection)


def garbage(server: FakeServer, connection: socket.socket) -> None:
    """Something else listens there."""
    connection.recv(1024)
    connection.sendall(bytes(range(256)) * 8)
    close(connection)


def web_server(server: FakeServer, connection: socket.socket) -> None:
    """A web server at the port."""
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    close(connection)


def long_line(server: FakeServer, connection: socket.socket) -> None:
    """An answer without an end."""
    connection.recv(1024)
    while not server.closing:
        connection.sendall(b"A" * 4096)


def wrong_order(server: FakeServer, connection: socket.socket) -> None:
    """Answers each command with the answer to the next."""
    lines = greet(server, connection)
    for _ in lines:
        connection.sendall(b"SERVER PROTOCOL 2\n")


def _until_report(server: FakeServer, connection: socket.socket, of: Era) -> bool:
    """Serves the commands before the report; True when one was asked for."""
    for line in server.lines(connection):
        if line.upper() in ("STATUS", "VERBOSE STATUS"):
            return True
        connection.sendall(answer_of(line.upper(), line, of).encode() + b"\n")
    return False


def _report(of: Era) -> bytes:
    return of.json if of.json is not None else of.text


def never_closes(of: Era) -> Handler:
    """The whole report, and then nothing: the connection stays open."""

    def handle(server: FakeServer, connection: socket.socket) -> None:
        if _until_report(server, connection, of):
            connection.sendall(_report(of))
            server.pause(60)

    return handle


def mute_after_request(of: Era) -> Handler:
    """Takes the request and never sends anything: half-open."""

    def handle(server: FakeServer, connection: socket.socket) -> None:
        if _until_report(server, connection, of):
            server.pause(60)

    return handle


def slow_drip(of: Era, seconds: float = 0.01) -> Handler:
    """The report byte by byte, but for its first line."""

    def handle(server: FakeServer, connection: socket.socket) -> None:
        if _until_report(server, connection, of):
            connection.sendall(_report(of)[:100])  # enough to know it by
            for byte in _report(of)[100:]:
                connection.sendall(bytes([byte]))
                if server.pause(seconds):
                    return
            close(connection)

    return handle


def slow_greeting(server: FakeServer, connection: socket.socket) -> None:
    """The greeting byte by byte, so that it takes longer than a handshake may."""
    connection.recv(1024)
    for byte in b"SERVER PROTOCOL 2\n":
        connection.sendall(bytes([byte]))
        if server.pause(0.2):
            return


def reset_mid_reply(of: Era) -> Handler:
    """Half of the report, then the connection breaks."""

    def handle(server: FakeServer, connection: socket.socket) -> None:
        if _until_report(server, connection, of):
            whole = _report(of)
            connection.sendall(whole[: len(whole) // 2])
            time.sleep(0.3)  # a reset overtakes what has not been read, and nobody is told when it has been
            reset(connection)

    return handle


def endless(of: Era) -> Handler:
    """A report that never ends."""

    def handle(server: FakeServer, connection: socket.socket) -> None:
        if _until_report(server, connection, of):
            connection.sendall(_report(of))
            while not server.closing:
                connection.sendall(b" " * 65536)

    return handle


def says_after_request(of: Era, reply: bytes) -> Handler:
    """Answers the request for a report with something else, and closes."""

    def handle(server: FakeServer, connection: socket.socket) -> None:
        if _until_report(server, connection, of):
            connection.sendall(reply)
            close(connection)

    return handle
