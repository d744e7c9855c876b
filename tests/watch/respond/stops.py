"""Stops to be answered: of a real process that does nothing, told to real hooks."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rankmuster.watch.config import CommandHook, OnStop, WatchConfig
from rankmuster.watch.respond.notice import StopNotice
from rankmuster.watch.respond.outcome import StopOutcome
from rankmuster.watch.respond.responder import Responder

NOTES_DOWN = "import os, sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"


def notice(**changes: Any) -> StopNotice:
    values: dict[str, Any] = {
        "instance": "llm-0",
        "incarnation": "2026-11-30T03:00:00Z",
        "host": "node-7",
        "detected_at": 1795986513.0,
        "since": 1795986500.0,
        "reason": "4 requests run and no token came for 13 s",
    }
    return StopNotice(**(values | changes))


def notes_down(path: Path, seconds: float = 20.0) -> CommandHook:
    """A hook that adds what it is given to a file, as one line."""
    return CommandHook(command=(sys.executable, "-c", NOTES_DOWN, str(path)), seconds=seconds)


def says(code: str, seconds: float = 20.0, *arguments: str) -> CommandHook:
    return CommandHook(command=(sys.executable, "-c", code, *arguments), seconds=seconds)


def only_hooks(*hooks: Any, **more: Any) -> WatchConfig:
    return WatchConfig(on_stop=OnStop(collect=False, hooks=hooks, **more))


def responder(config: WatchConfig, folder: Path, unix_now: Callable[[], float] = time.time) -> Responder:
    return Responder(config, folder, time.monotonic, unix_now)


def wait_for(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
    return found


def answered(one: Responder, stop: StopNotice) -> StopOutcome:
    """Starts it and waits for its end."""
    one.start(stop)
    found: list[StopOutcome] = wait_for(one.finished)
    assert len(found) == 1
    return found[0]


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Server:
    """Answers POSTs with the statuses it is given, one after the other, the last one for ever."""

    def __init__(self, statuses: list[int], location: str | None = None, hang: threading.Event | None = None) -> None:
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.seen.append((self.path, dict(self.headers), body))
                if hang is not None:
                    hang.wait(20)
                status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
                self.send_response(status)
                if location is not None and 300 <= status < 400:
                    self.send_header("Location", location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook/s3cr3tpath"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def sleeper() -> Iterator[int]:
    """The pid of a process that does nothing."""
    import subprocess

    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.kill()
        process.wait()
