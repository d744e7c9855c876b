"""One rank of a drill in a cluster, one a pod: `python -m rankmuster.drill.pod_rank --folder FOLDER [--port PORT]`.

Rank, size and the leader's address come from the environment: torchrun's names, else a LeaderWorkerSet's. Rank 0 shows
an engine's metrics page and answers completions. A word in FOLDER/fault makes a fault in this rank:

    kubectl exec POD -c engine -- sh -c 'echo stop > /tmp/drill/fault'

`stop`: stops calling and stays alive. `kill`: SIGKILL. `freeze`: SIGSTOP. `exit`: as a program that gives up.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rankmuster.drill.counts import Counts
from rankmuster.drill.page import page

FAULT = "fault"
BAD_USAGE = 3
LAYERS = 4
WIDTH = 64
PACE_SECONDS = 0.02
"""Of a step: fifty a second, few enough for a CPU that others need."""
ANSWER_SECONDS = 10.0
"""For which a completion waits for the next step: an engine that hangs does not answer."""
JOIN_SECONDS = 1800.0
"""As torch's own default: a fault is told long before that ends the ranks."""
FOREVER = 1e6
NAMES = (
    ("RANK", "LWS_WORKER_INDEX"),
    ("WORLD_SIZE", "LWS_GROUP_SIZE"),
    ("MASTER_ADDR", "LWS_LEADER_ADDRESS"),
)


class Progress:
    """What the page shows; written by the rank, read by the server's threads."""

    def __init__(self) -> None:
        self.counts = Counts(running=1, cache=0.1)
        self.moved = threading.Condition()

    def step(self) -> None:
        """One token more."""
        with self.moved:
            self.counts.generated += 1
            self.counts.iteration.observe(1)
            self.moved.notify_all()


def handler(progress: Progress) -> type[BaseHTTPRequestHandler]:
    """Answers /health and /metrics always, as engines do, and a completion once a step has ended since it came."""

    class Front(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if path in ("/health", "/metrics"):
                self._answer(200, page(progress.counts).encode() if path == "/metrics" else b"")
            else:
                self._answer(404, b"")

        def do_POST(self) -> None:
            self.rfile.read(min(int(self.headers.get("Content-Length") or 0), 1 << 20))
            with progress.moved:
                came = progress.moved.wait(ANSWER_SECONDS)
            said = {"choices": [{"text": "1"}]} if came else {"error": "no step ended"}
            self._answer(200 if came else 504, json.dumps(said).encode())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
            """Nothing: the log is the rank's."""

    return Front


def place(environment: Mapping[str, str]) -> tuple[int, int, str]:
    """(rank, size, leader's address). Raises ValueError, which names what is missing."""
    found = []
    for names in NAMES:
        value = next((environment[name] for name in names if environment.get(name)), None)
        if value is None:
            raise ValueError(f"none of {' and '.join(names)} is set: is this a pod of a LeaderWorkerSet?")
        found.append(value)
    return int(found[0]), int(found[1]), found[2]


def ordered(folder: Path) -> str | None:
    """The fault that was asked for, once."""
    path = folder / FAULT
    try:
        word = path.read_text(encoding="utf-8", errors="replace").strip()
        path.unlink()
    except OSError:
        return None
    return word


def run(rank: int, size: int, leader: str, folder: Path, port: int) -> None:
    """Joins, and steps until a signal, a fault or the end of a peer ends it."""
    import torch
    import torch.distributed as dist

    from rankmuster.drill import recorder_pipe
    from rankmuster.drill.rank_loop import gloo_dump

    recorder_pipe.from_environment(os.environ, rank, gloo_dump)
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{leader}:{os.environ.get('MASTER_PORT', '29500')}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=JOIN_SECONDS),
    )
    progress = Progress()
    if rank == 0:
        server = ThreadingHTTPServer(("0.0.0.0", port), handler(progress))  # noqa: S104  # its Service asks for it
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"rank {rank} of {size} serves", flush=True)
    _step_on(rank, folder, progress, torch.ones(WIDTH), dist)


def _step_on(rank: int, folder: Path, progress: Progress, part: Any, dist: Any) -> None:
    while True:
        word = ordered(folder)
        if word is not None:
            print(f"rank {rank}: drill begins: {word}", flush=True)
        if word in ("kill", "freeze"):
            os.kill(os.getpid(), signal.SIGKILL if word == "kill" else signal.SIGSTOP)
        elif word == "exit":
            sys.exit(1)
        elif word == "stop":
            time.sleep(FOREVER)
        for _ in range(LAYERS):
            dist.all_reduce(part)
            part.fill_(1.0)
        progress.step()
        time.sleep(PACE_SECONDS)


def main(arguments: list[str]) -> int:
    """Runs one rank. Exit status: 3 bad usage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where FOLDER/fault is looked for")
    parser.add_argument("--port", type=int, default=8000, help="of rank 0's page and answers")
    options = parser.parse_args(arguments)
    try:
        rank, size, leader = place(os.environ)
        options.folder.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"pod_rank: {error}\n")
        return BAD_USAGE
    if "RANK" not in os.environ:  # who looks at processes from outside knows a rank by its environment
        found = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(size), "MASTER_ADDR": leader}
        os.execve(sys.executable, [sys.executable, "-m", "rankmuster.drill.pod_rank", *arguments], os.environ | found)  # noqa: S606
    run(rank, size, leader, options.folder, options.port)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
