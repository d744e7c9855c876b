"""The engine's front end of a drill: a metrics page in vLLM's words, from what the ranks really move.

A process of its own, as engines have: it answers while every rank hangs, with counters that stand still. `--anew`: it
counts from its own start.
`python -m rankmuster.drill.server FOLDER --parent PID --fd FD --host 127.0.0.1 --port PORT [--anew 1]`
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rankmuster.drill.counts import Counts
from rankmuster.drill.ledger import Ledger
from rankmuster.drill.page import page
from rankmuster.drill.plan import LEDGER, PLAN, TALLY, JobPlan
from rankmuster.drill.tally import Tally
from rankmuster.drill.tether import die_with

START_POLL = 0.02
"""Seconds between two looks whether the first steps are done. Before, the port refuses: vLLM, too, has its address
bound from the start and listens once the engine is up."""


def plain(tally: Tally, batch: int) -> Counts:
    """What a job without requests shows: a batch that decodes, step by step."""
    counts = Counts(running=tally.running, generated=tally.tokens)
    counts.iteration.observe(batch, tally.steps)
    counts.iteration.total = tally.tokens
    return counts


def handler(counts: Callable[[], Counts]) -> Callable[..., BaseHTTPRequestHandler]:
    """Answers /metrics and /health."""

    class Page(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            path = self.path.split("?")[0].rstrip("/")
            if path == "/health":  # vLLM's answers 200 while its collectives hang, too
                self._answer(200, b"")
            elif path == "/metrics":
                self._answer(200, page(counts()).encode())
            else:
                self._answer(404, b"")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
            """Nothing: the log is the launcher's."""

    return Page


def main(arguments: list[str]) -> None:
    """Serves until a signal ends it."""
    folder, options = Path(arguments[0]), dict(zip(arguments[1::2], arguments[2::2], strict=True))
    die_with(int(options["--parent"]))
    listening = socket.socket(fileno=int(options["--fd"]))
    tally = Tally(folder / TALLY)
    plan = JobPlan.from_json((folder / PLAN).read_text())
    ledger = Ledger(folder / LEDGER)

    def counts() -> Counts:
        return plain(tally, plan.batch) if plan.serving is None else ledger.read()

    before = counts() if "--anew" in options else Counts()
    answers = handler(lambda: counts().since(before))
    server = ThreadingHTTPServer(listening.getsockname()[:2], answers, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    while not tally.steps:
        time.sleep(START_POLL)
    server.server_activate()
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
