"""A real HAProxy of a test's own, and engines behind it: processes that note every request they get."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAM = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
"""Users' PATHs often lack where Debian has it."""

needs_haproxy = pytest.mark.skipif(PROGRAM is None, reason="haproxy is not installed")

DEPLOYED = Path(__file__).parent.parent / "deploy" / "haproxy" / "rankmuster.cfg"

ENGINE = r"""
import os, socket, sys, threading, time
log, go = sys.argv[1], sys.argv[2]
listener = socket.create_server(("127.0.0.1", int(sys.argv[3])))
print(listener.getsockname()[1], flush=True)

def serve(connection):
    try:
        while True:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(65536)
                if not piece:
                    return
                head += piece
            path = head.split()[1].decode()
            head, _, body = head.partition(b"\r\n\r\n")
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    while len(body) < int(line[15:]):
                        body += connection.recv(65536)
            if path != "/health":
                with open(log, "a") as file:
                    file.write(path + "\n")
            if path.startswith("/hang"):
                time.sleep(60)
                return
            if path.startswith("/stream") or b'"stream":true' in body.replace(b" ", b""):
                events = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                connection.sendall(b"HTTP/1.1 200 OK\r\n" + events)
                while not os.path.exists(go):
                    connection.sendall(b"7\r\ntoken \n\r\n")
                    time.sleep(0.02)
                connection.sendall(b"0\r\n\r\n")
                continue
            status = b"502 Bad" if path.startswith("/own-502") else b"200 OK"
            connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nok")
    except OSError:
        pass
    finally:
        connection.close()

while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


class Engine:
    """`seen`: the paths of all requests but health checks. Streams last until `let_go`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._log, self._go = folder / f"{name}.requests", folder / f"{name}.go"
        self.port = 0
        self.start()

    def start(self) -> None:
        """Again at the same port."""
        command = [sys.executable, "-c", ENGINE, str(self._log), str(self._go), str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    @property
    def seen(self) -> list[str]:
        return self._log.read_text().split() if self._log.exists() else []

    def let_go(self) -> None:
        self._go.touch()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Client:
    """One request in a thread of its own. `status`, `body`, `headers`, `broken`: once it is `over`."""

    def __init__(self, port: int, path: str, body: dict[str, Any] | None = None) -> None:
        self.status = 0
        self.body = b""
        self.headers: dict[str, str] = {}
        self.broken: Exception | None = None
        self.begun = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(port, path, body), daemon=True)
        self._thread.start()

    def _run(self, port: int, path: str, body: dict[str, Any] | None) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            if body is None:
                connection.request("GET", path)
            else:
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            self.status = answer.status
            self.headers = {name.lower(): value for name, value in answer.getheaders()}
            self.body = answer.read(7)
            self.begun.set()
            while piece := answer.read1(65536):
                self.body += piece
        except (OSError, http.client.HTTPException) as error:
            self.broken = error
        finally:
            connection.close()

    def over(self) -> Client:
        self._thread.join(20)
        assert not self._thread.is_alive(), "the request did not end"
        return self


def fetched(port: int, path: str) -> Client:
    """The same, to its end."""
    return Client(port, path).over()


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def haproxy(folder: Path, config: str, *, ready: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs it with that configuration. `ready`: path of its runtime socket."""
    path = folder / f"{os.path.basename(ready)}.cfg"
    path.write_text(config)
    assert PROGRAM is not None
    with (folder / "haproxy.log").open("ab") as log:
        process = subprocess.Popen([PROGRAM, "-db", "-f", str(path)], stdout=log, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or _listens(ready))
        assert process.poll() is None, (folder / "haproxy.log").read_text()
        yield process
    finally:
        process.kill()
        process.wait()


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(path) == 0


def deployed(port: int, admin: str, *servers: int) -> str:
    """The configuration that we ship, with addresses of the test's own; one server or two, without the pauses."""
    text = DEPLOYED.read_text()
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{port}").replace("/run/haproxy/admin.sock mode", f"{admin} mode")
    lines = []
    for line in text.splitlines():
        number = {"server llm-0": 0, "server llm-1": 1}.get(" ".join(line.split()[:2]))
        if number is not None and number >= len(servers):
            continue
        if number is not None:
            line = line.replace(f"127.0.0.1:{8001 + number}", f"127.0.0.1:{servers[number]}")
        lines.append(line)
    return "\n".join(lines).replace("check inter 2s", "check inter 100ms") + "\n"
