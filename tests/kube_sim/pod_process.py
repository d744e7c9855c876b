"""Containers as processes of this machine: started in namespaces of their own, told to end, killed whole."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kube_sim.pod_network import may_connect

LAUNCH = Path(__file__).with_name("pod_launch.py")
PROGRAM = [sys.executable, "-I", "-S", str(LAUNCH)]
MARK = "SIM_CONTAINER"
"""In the environment of all that a container starts: by it a container is killed whole, as by its cgroup."""


def may_isolate() -> str:
    """Why containers cannot be started here; empty where they can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--uts", "--fork", "true"], capture_output=True, check=False)
    return may_connect() if tried.returncode == 0 else f"unshare: {tried.stderr.decode(errors='replace').strip()}"


class Namespace:
    """A pid namespace that is held open: a node's, or within it a pod's. Closing it kills all that is in it."""

    def __init__(self, above: Namespace | None = None) -> None:
        self._process = subprocess.Popen(
            [*PROGRAM, "hold", above.path if above else "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self._process.stdout.close()
        if not line:
            self.close()
            raise RuntimeError("no pid namespace could be made")
        self.pid = int(line)

    @property
    def path(self) -> str:
        return f"/proc/{self.pid}/ns/pid"

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError, AttributeError):
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait()


@dataclass(frozen=True, slots=True)
class Start:
    """`shared`: the pod's pid namespace; else the container gets one of its own within the node's."""

    identity: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    hostname: str
    mounts: Sequence[Mapping[str, Any]]
    image: Sequence[str]
    log: Path
    room: Path
    namespace: str
    network: str
    shared: bool
    read_only: bool = False


@dataclass(slots=True)
class Running:
    """`pid`: of its first process, as the machine numbers it. `exit_code`: 128 and the signal, where one ended it."""

    identity: str
    process: subprocess.Popen[bytes]
    pid: int
    settings: Path
    exit_code: int | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def processes(self) -> list[int]:
        """All that it has started and that lives."""
        return [pid for pid in pids() if _marked(pid, self.identity)]

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def command(self, words: Sequence[str]) -> list[str]:
        """What runs a command in it."""
        return [*PROGRAM, "exec", str(self.pid), str(self.settings), *words]


def start(wish: Start, ended: Callable[[Running], None]) -> Running:
    """`ended` is called in a thread of its own. Raises OSError where it cannot be started at all."""
    wish.room.mkdir(parents=True, exist_ok=True)
    wish.log.parent.mkdir(parents=True, exist_ok=True)
    root = wish.room / "root"
    root.mkdir(exist_ok=True)
    settings = wish.room / "settings.json"
    said = {
        "command": list(wish.command),
        "environment": {**wish.environment, MARK: wish.identity},
        "folder": wish.folder,
        "hostname": wish.hostname,
        "mounts": list(wish.mounts),
        "image": list(wish.image),
        "log": str(wish.log),
        "root": str(root),
        "pid_namespace": wish.namespace,
        "network": wish.network,
        "own_pid_namespace": not wish.shared,
        "read_only": wish.read_only,
    }
    settings.write_text(json.dumps(said), encoding="utf-8")
    with (wish.room / "runtime.log").open("ab") as trouble:
        process = subprocess.Popen(
            [*PROGRAM, "container", str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=trouble,
            start_new_session=True,
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.stdout.close()
    if not line:
        process.wait()
        raise OSError((wish.room / "runtime.log").read_text(errors="replace")[-300:] or "it could not be started")
    running = Running(wish.identity, process, int(line), settings)

    def wait() -> None:
        running.exit_code = process.wait()
        running.kill()
        running.over.set()
        ended(running)

    threading.Thread(target=wait, name=f"wait {wish.identity}", daemon=True).start()
    return running


def pids() -> Iterable[int]:
    return [int(one) for one in os.listdir("/proc") if one.isdigit()]


def _marked(pid: int, identity: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={identity}".encode() in environment.split(b"\0")
