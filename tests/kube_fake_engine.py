"""An engine of a simulated pod: a front process, two ranks as its children, a metrics page and completions.

    python kube_fake_engine.py FOLDER          (in a pod of a LeaderWorkerSet)

Ranks tell the leader of each step; a step is done when all have told, so one that is gone or stands still stops all of
them, as a collective does. The front lives on, as vLLM's does. No torch is needed. Each rank writes its pid to
FOLDER/rank-N.pid.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rankmuster.drill.counts import Counts
from rankmuster.drill.page import page

HERE = 2
"""Ranks of a pod."""

PORT, STEPS_PORT = 8000, 8001
PACE = 0.05
ANSWER_SECONDS = 3.0


class Steps:
    """Of the leader: who has told of which step."""

    def __init__(self, size: int) -> None:
        self.counts = Counts(running=1, cache=0.1)
        self.moved = threading.Condition()
        self._told = dict.fromkeys(range(size), 0)
        self._done = 0

    def told(self, rank: int) -> None:
        with self.moved:
            self._told[rank] += 1
            done = min(self._told.values())
            if done > self._done:
                self._done = done
                self.counts.generated += 1
                self.counts.iteration.observe(1)
            self.moved.notify_all()

    @property
    def done(self) -> int:
        return self._done


def serve(steps: Steps) -> None:
    class Front(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path.startswith("/metrics"):
                self._answer(200, page(steps.counts).encode())
            else:
                self._answer(200 if self.path == "/health" else 404, b"")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with steps.moved:
                before = steps.done
                came = steps.moved.wait_for(lambda: steps.done > before, ANSWER_SECONDS)
            said = {"choices": [{"text": "1"}]} if came else {"error": "no step ended"}
            self._answer(200 if came else 504, json.dumps(said).encode())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The log is the ranks'."""

    server = ThreadingHTTPServer(("0.0.0.0", PORT), Front)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    listening = socket.create_server(("0.0.0.0", STEPS_PORT))
    threading.Thread(target=_accept, args=(listening, steps), daemon=True).start()


def _accept(listening: socket.socket, steps: Steps) -> None:
    while True:
        one, _ = listening.accept()
        threading.Thread(target=_hear, args=(one, steps), daemon=True).start()


def _hear(one: socket.socket, steps: Steps) -> None:
    """A rank: its number as a byte a step; it gets one back when all have done it."""
    try:
        while byte := one.recv(1):
            with steps.moved:
                before = steps.done
            steps.told(byte[0])
            with steps.moved:
                steps.moved.wait_for(lambda: steps.done > before)  # noqa: B023
            one.sendall(b".")
    except OSError:
        return


def rank(number: int, leader: str) -> None:
    while True:
        try:
            there = socket.create_connection((leader, STEPS_PORT), 5)
            break
        except OSError:
            time.sleep(0.05)
    there.settimeout(None)
    print(f"rank {number} has joined", flush=True)
    while there.send(bytes([number])) and there.recv(1):
        time.sleep(PACE)
    time.sleep(1e6)  # the leader is gone: it waits, as a rank in a collective does


def main(folder: Path) -> None:
    index, size = int(os.environ["LWS_WORKER_INDEX"]), int(os.environ["LWS_GROUP_SIZE"])
    world = size * HERE
    folder.mkdir(parents=True, exist_ok=True)
    if index == 0:
        serve(Steps(world))
    for local in range(HERE):
        number = index * HERE + local
        variables = {
            "RANK": str(number),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": os.environ["LWS_LEADER_ADDRESS"],
            "MASTER_PORT": str(STEPS_PORT),
        }
        child = subprocess.Popen([sys.executable, __file__, "rank"], env={**os.environ, **variables})
        (folder / f"rank-{number}.pid").write_text(str(child.pid))
        threading.Thread(target=child.wait, daemon=True).start()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        rank(int(os.environ["RANK"]), os.environ["MASTER_ADDR"])
    else:
        main(Path(sys.argv[1]))
