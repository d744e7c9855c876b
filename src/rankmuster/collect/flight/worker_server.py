"""Finds torch's worker servers (`torch.distributed.debug`) without knocking at any door that is not known to be one.

A job's other ports are NCCL's bootstrap, its RAS, gloo's pairs and the store: a stray request can disturb them. So a
worker counts only when it runs torch's server thread, its address comes from its own environment or the store, and
/proc says that this very process listens there.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rankmuster.collect.bounded import Late, within
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.files_below import absolute, located
from rankmuster.collect.flight.tcp_store import StoreSilent, read_keys
from rankmuster.collect.listening import listening_of, same_network
from rankmuster.collect.process_now import thread_name, threads_of
from rankmuster.collect.target import ProcessOfInstance

SERVER_THREAD = "pt_workerserver"
"""What torch names the server's threads (c10d/control_plane/WorkerServer.cpp)."""

SOCKET = "TORCH_WORKER_SERVER_SOCKET"
"""Where a worker started by `torch.distributed.elastic.control_plane.worker_main` listens."""

STORE_SECONDS = 1.5
"""For the store; it answers in milliseconds where its process lives."""

_ADDRESS = re.compile(r"(?:(?P<rank>\d{1,6})=)?http://(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.\-]+):(?P<port>\d{1,5})/?")


@dataclass(frozen=True, slots=True, eq=False)
class WorkerServer:
    """One rank's server. `hosts`: tried in this order; `path`: a Unix socket below `root` instead."""

    rank: int | None
    process: ProcessOfInstance | None
    hosts: tuple[str, ...] = ()
    port: int = 0
    root: Path | None = None
    path: str = ""

    @property
    def who(self) -> str:
        """As the notes call it."""
        if self.rank is not None:
            return f"rank {self.rank}"
        return f"process {self.process.inner_pid}" if self.process else f"{self.hosts[0]}:{self.port}"

    def connect(self, deadline: Deadline) -> socket.socket:
        """A connected socket. Raises OSError."""
        if self.root is not None:
            with located(self.root, self.path) as handle:
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                try:
                    connection.settimeout(max(deadline.remaining(), 0.01))
                    connection.connect(f"/proc/self/fd/{handle}")
                except OSError:
                    connection.close()
                    raise
                return connection
        last = OSError("no address")
        for host in self.hosts:
            try:
                return socket.create_connection((host, self.port), timeout=max(deadline.remaining(), 0.01))
            except OSError as error:
                last = error
        raise last


def configured(addresses: tuple[str, ...]) -> tuple[list[WorkerServer], list[str]]:
    """Servers that the operator named, as `http://HOST:PORT` or `RANK=http://HOST:PORT`; and what could not be read."""
    servers, problems = [], []
    for address in addresses:
        found = _ADDRESS.fullmatch(address.strip())
        if found is None or not 0 < int(found["port"]) < 1 << 16:
            problems.append(f"{address[:100]!r} is no address of a worker server (RANK=http://HOST:PORT)")
            continue
        rank = int(found["rank"]) if found["rank"] else None
        servers.append(WorkerServer(rank, None, (found["host"].strip("[]"),), int(found["port"])))
    return servers, problems


def find_servers(
    proc: Path, workers: tuple[ProcessOfInstance, ...], deadline: Deadline
) -> tuple[list[WorkerServer], list[str]]:
    """The servers of these workers, and what kept others from being found."""
    servers: list[WorkerServer] = []
    problems: list[str] = []
    by_store: dict[tuple[str, int], list[ProcessOfInstance]] = {}
    for worker in workers:
        if not any(thread_name(proc, worker.pid, thread) == SERVER_THREAD for thread in threads_of(proc, worker.pid)):
            continue
        path, host, port = (worker.environ.get(name, "") for name in (SOCKET, "MASTER_ADDR", "MASTER_PORT"))
        if path:
            if path in listening_of(proc, worker.pid).unix:
                servers.append(WorkerServer(worker.rank, worker, root=worker.root, path=absolute(worker.cwd, path)))
            else:
                problems.append(f"{_who(worker)} does not listen on {path[:200]} itself")
        elif not same_network(proc, worker.pid):
            problems.append(f"{_who(worker)} is in another network namespace (collect inside its pod)")
        elif worker.rank is None or not host or not port.isdigit() or len(port) > 5:
            problems.append(
                f"{_who(worker)} runs a worker server, and its environment does not tell the store's address"
            )
        else:
            by_store.setdefault((host, int(port)), []).append(worker)
    for (host, number), asking in by_store.items():
        found, said = _from_store(proc, host, number, asking, deadline)
        servers += found
        problems += said
    return servers, problems


def _from_store(
    proc: Path, host: str, port: int, workers: list[ProcessOfInstance], deadline: Deadline
) -> tuple[list[WorkerServer], list[str]]:
    limit = deadline.within(STORE_SECONDS)
    keys = [f"debug_server/rank{worker.rank}" for worker in workers]
    try:
        values = within(limit.remaining(), partial(read_keys, host, port, keys, limit))
    except (StoreSilent, Late) as error:
        return [], [f"the store at {host}:{port}, which knows the worker servers' ports, gives no answer: {error}"]
    servers, problems = [], []
    for worker, key in zip(workers, keys, strict=True):
        told = _ADDRESS.fullmatch(values.get(key, b"").decode("ascii", "replace"))
        number = int(told["port"]) if told else 0
        own = listening_of(proc, worker.pid)
        if number in own.tcp6:
            servers.append(WorkerServer(worker.rank, worker, ("::1", "127.0.0.1"), number))
        elif number in own.tcp:
            servers.append(WorkerServer(worker.rank, worker, ("127.0.0.1",), number))
        else:
            problems.append(f"{_who(worker)} runs a worker server, and the store tells no port on which it listens")
    return servers, problems


def _who(worker: ProcessOfInstance) -> str:
    return f"rank {worker.rank}" if worker.rank is not None else f"process {worker.inner_pid}"
