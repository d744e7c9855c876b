"""A real HAProxy before a drill's engine: one front, one server, and the runtime socket that the runbook speaks to.

Who gets no server is told so in a way that a client can act on: 503 with Retry-After and a reason.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rankmuster.drill.launch import Launched, bound

BACKEND, SERVER = "engine", "llm"
VARIABLE = "RANKMUSTER_DRILL_HAPROXY"
"""Where its program is, when it is not on the path."""
START_SECONDS, START_POLL = 10.0, 0.02

CONFIG = """\
global
    log stdout format raw local0
    stats socket {socket} mode 600 level admin
    hard-stop-after 1s

defaults
    mode http
    log global
    option httplog
    # A model may be silent for long: that a group hangs is for the watch to say, not for a time-out here.
    timeout connect 2s
    timeout client 300s
    timeout server 300s
    timeout queue 5s
    timeout check 2s
    retries 0
    retry-on conn-failure
    option abortonclose

frontend clients
    bind fd@{descriptor}
    default_backend {backend}

backend {backend}
    # As deploy/haproxy/rankmuster.cfg has it: what HAProxy itself has to say is 503 with Retry-After and a reason.
    {errors}
    http-response set-var(txn.answered) bool(true)
    http-after-response set-status 503 if !{{ var(txn.answered) -m found }} {{ status 502 504 }}
    option httpchk GET /health
    server {server} 127.0.0.1:{port} check inter 1s fall 2 rise 1 weight 100
"""
REASONS = {503: "not_sent", 502: "ended", 504: "no_answer"}
"""Of HAProxy's own errors, in `REASON_HEADER`: nothing was begun; the instance was cut off or died; it said nothing."""
REASON_HEADER = "X-Rankmuster-Reason"
REFUSAL = '{{"error": {{"type": "instance_recovering", "code": 503, "message": "ask again", "reason": "{reason}"}}}}'
RETRY_SECONDS = 1


class NoGateway(OSError):
    """HAProxy is not there, or does not serve."""


def program() -> tuple[str, ...]:
    """Its command line. Raises NoGateway when it is nowhere."""
    given = os.environ.get(VARIABLE)
    if given:
        return (given,)
    found = shutil.which("haproxy")
    if found is None:
        raise NoGateway(f"haproxy is not on the path, and {VARIABLE} does not say where it is")
    return (found,)


class Gateway:
    """To be used in a `with`. `folder`: for its configuration and its log; `runtime`: path of its runtime socket, at
    most 100 characters; `port`: of the engine. Raises NoGateway."""

    def __init__(self, folder: Path, runtime: Path, port: int, command: Sequence[str] | None = None) -> None:
        self.runtime = runtime
        self._folder, self._port = folder, port
        self._command = tuple(command) if command is not None else program()
        self._process: Launched | None = None
        self.address = ("127.0.0.1", 0)

    def __enter__(self) -> Gateway:
        self._folder.mkdir(parents=True, exist_ok=True)
        config, log = self._folder / "haproxy.cfg", self._folder / "haproxy.log"
        with bound() as listening:
            listening.listen(1024)
            self.address = listening.getsockname()[:2]
            text = CONFIG.format(
                socket=self.runtime,
                errors=_errors(),
                descriptor=listening.fileno(),
                backend=BACKEND,
                server=SERVER,
                port=self._port,
            )
            config.write_text(text)
            line = [*self._command, "-db", "-f", str(config)]
            self._process = Launched(line, dict(os.environ), log, (listening.fileno(),), tied=True)
        end = time.monotonic() + START_SECONDS
        while not self._speaks():
            if self._process.end is not None or time.monotonic() > end:
                self.stop()
                said = log.read_bytes()[-800:].decode(errors="replace").strip()
                raise NoGateway(f"`{' '.join(line)}` does not serve; it said: {said or 'nothing'}")
            time.sleep(START_POLL)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends it; may be called twice."""
        if self._process is not None:
            self._process.kill()
            self._process.gone()

    def _speaks(self) -> bool:
        with socket.socket(socket.AF_UNIX) as asked:
            try:
                asked.connect(str(self.runtime))
            except OSError:
                return False
        return True


def _errors() -> str:
    """A line of configuration for each status."""
    lines = []
    for status, reason in REASONS.items():
        body = REFUSAL.format(reason=reason)
        head = f"http-error status {status} content-type application/json string '{body}'"
        lines.append(f"{head} hdr Retry-After {RETRY_SECONDS} hdr {REASON_HEADER} {reason}")
    return "\n    ".join(lines)
