"""An instance as small as one can be: real processes with the variables of ranks, and a page that counts tokens."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WAITS = "import sys; print('started', flush=True); sys.stdin.read()"

SERVES = """
import http.server, itertools, sys, threading
tokens, step = itertools.count(1000), int(sys.argv[1])
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        count = next(tokens) if step else 1000
        body = (
            "# TYPE vllm:num_requests_running gauge\\n"
            'vllm:num_requests_running{engine="0",model_name="m"} 4.0\\n'
            "# TYPE vllm:generation_tokens_total counter\\n"
            'vllm:generation_tokens_total{engine="0",model_name="m"} %d.0\\n' % (count * 100)
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
"""


@dataclass(frozen=True)
class Small:
    """`name`: as `--instance` takes it, and no other instance of this machine has it; `url`: its metrics page."""

    name: str
    url: str
    ranks: tuple[subprocess.Popen[bytes], ...]

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(rank.pid for rank in self.ranks)


@contextmanager
def small_instance(
    world: int = 2, *, moving: bool = True, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[Small]:
    """Runs it for the block; every process is gone afterwards."""
    name = f"small-{uuid.uuid4().hex[:10]}"
    shared = {"PATH": os.defpath, "RANKMUSTER_INSTANCE": name, "WORLD_SIZE": str(world), **(environ or {})}
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str, *arguments: str, **own: str) -> bytes:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**shared, **own},
            cwd=cwd,
        )
        started.append(process)
        assert process.stdout is not None
        return process.stdout.readline()

    try:
        for rank in range(world):
            assert start(WAITS, RANK=str(rank), LOCAL_RANK=str(rank)) == b"started\n"
        port = int(start(SERVES, "1" if moving else "0"))
        yield Small(name, f"http://127.0.0.1:{port}/metrics", tuple(started[:world]))
    finally:
        for process in started:
            process.kill()
            process.communicate()
