"""The engine's front end of a drill: a metrics page in vLLM's words, from what the ranks really move.

A process of its own, as engines have: it answers while every rank hangs, with counters that stand still.
`python -m rankmuster.drill.server FOLDER --parent PID --fd FD --host 127.0.0.1 --port PORT`
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rankmuster.drill.plan import TALLY
from rankmuster.drill.tally import Tally
from rankmuster.drill.tether import die_with

MODEL = "drill"
START_POLL = 0.02
"""Seconds between two looks whether the first steps are done. Before, the port refuses: vLLM, too, has its address
bound from the start and listens once the engine is up."""


def page(*, running: int, tokens: int, steps: int) -> str:
    """Requests running, tokens generated and steps done, as vLLM writes them."""
    labels = f'engine="0",model_name="{MODEL}"'
    return "".join(
        f"# HELP {name} {text}\n# TYPE {name} {kind}\n{lines}"
        for name, kind, text, lines in (
            (
                "vllm:num_requests_running",
                "gauge",
                "Number of requests in model execution batches.",
                f"vllm:num_requests_running{{{labels}}} {running}.0\n",
            ),
            (
                "vllm:num_requests_waiting",
                "gauge",
                "Number of requests waiting to be processed.",
                f"vllm:num_requests_waiting{{{labels}}} 0.0\n",
            ),
            (
                "vllm:generation_tokens_total",
                "counter",
                "Number of generation tokens processed.",
                f"vllm:generation_tokens_total{{{labels}}} {tokens}.0\n",
            ),
            (
                "vllm:iteration_tokens_total",
                "histogram",
                "Histogram of number of tokens per engine_step.",
                f'vllm:iteration_tokens_total_bucket{{{labels},le="+Inf"}} {steps}.0\n'
                f"vllm:iteration_tokens_total_count{{{labels}}} {steps}.0\n"
                f"vllm:iteration_tokens_total_sum{{{labels}}} {tokens}.0\n",
            ),
        )
    )


def handler(tally: Tally) -> Callable[..., BaseHTTPRequestHandler]:
    """Answers /metrics and /health."""

    class Page(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            path = self.path.split("?")[0].rstrip("/")
            if path == "/health":  # vLLM's answers 200 while its collectives hang, too
                self._answer(200, b"")
            elif path == "/metrics":
                text = page(running=tally.running, tokens=tally.tokens, steps=tally.steps)
                self._answer(200, text.encode())
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
    server = ThreadingHTTPServer(listening.getsockname()[:2], handler(tally), bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    while not tally.steps:
        time.sleep(START_POLL)
    server.server_activate()
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
