"""Networks of a simulated cluster's pods: each has its own loopback and an address that all others reach.

One namespace is the fabric, with a bridge in it; pods and nodes hang on it. Nothing of the machine's own network is
touched, and all of it is gone with the process that made it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from typing import Any, TypeVar

NEWNET = 0x40000000
GATEWAY = "10.244.0.1"
"""The fabric's own address: where the API server is forwarded to."""

Result = TypeVar("Result")
libc = ctypes.CDLL(None, use_errno=True)


def may_connect() -> str:
    """Why pods cannot have networks here; empty where they can."""
    if shutil.which("ip") is None or shutil.which("nsenter") is None:
        return "ip and nsenter (Debian: iproute2, util-linux) are missing"
    tried = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "br0", "type", "bridge"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else f"no bridge can be made: {tried.stderr.decode(errors='replace').strip()}"


class Network:
    """A network namespace, held by an open file."""

    def __init__(self) -> None:
        def make() -> int:
            if libc.unshare(NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "no network namespace can be made")
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        self._handle = _in_thread(make)

    @property
    def path(self) -> str:
        return f"/proc/{os.getpid()}/fd/{self._handle}"

    def enter(self) -> None:
        """This thread, and what it starts, is in it from now on."""
        if libc.setns(self._handle, NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "the network namespace cannot be entered")

    def run(self, call: Callable[[], Result]) -> Result:
        """Done within it. Raises what `call` raises."""

        def inside() -> Result:
            self.enter()
            return call()

        return _in_thread(inside)

    def command(self, words: list[str]) -> list[str]:
        """What runs a command within it."""
        return ["nsenter", f"--net={self.path}", *words]

    def ip(self, *lines: str) -> None:
        """Commands of `ip`."""
        subprocess.run(
            self.command(["ip", "-batch", "-"]), input="\n".join(lines).encode(), check=True, capture_output=True
        )

    def close(self) -> None:
        os.close(self._handle)


class Fabric:
    """What all are connected to."""

    def __init__(self) -> None:
        self.network = Network()
        self._count = 0
        self._lock = threading.Lock()
        self._listening: list[socket.socket] = []
        self.network.ip(
            "link set lo up", "link add br0 type bridge", f"addr add {GATEWAY}/16 dev br0", "link set br0 up"
        )

    def attach(self, address: str) -> Network:
        """A new network with that address (10.244.x.y)."""
        with self._lock:
            self._count += 1
            name = f"v{self._count}"
        made = Network()
        self.network.ip(
            f"link add {name} type veth peer name eth0 netns {made.path}",
            f"link set {name} master br0 up",
        )
        made.ip(
            "link set lo up", f"addr add {address}/16 dev eth0", "link set eth0 up", f"route add default via {GATEWAY}"
        )
        return made

    def forward(self, port: int, to: tuple[str, int]) -> None:
        """Whoever connects to the fabric's address there is connected to `to` on this machine."""

        def listen() -> socket.socket:
            made = socket.create_server((GATEWAY, port))
            made.listen(128)
            return made

        server = self.network.run(listen)
        self._listening.append(server)
        threading.Thread(target=_accept, args=(server, to), daemon=True, name="forward").start()

    def close(self) -> None:
        for one in self._listening:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.network.close()


def _accept(server: socket.socket, to: tuple[str, int]) -> None:
    while True:
        try:
            there, _ = server.accept()
        except OSError:
            return
        try:
            here = socket.create_connection(to, 5)
        except OSError:
            there.close()
            continue
        both = threading.Semaphore(0)
        for one, other in ((here, there), (there, here)):
            threading.Thread(target=_pour, args=(one, other, both), daemon=True).start()
        threading.Thread(target=_shut, args=(here, there, both), daemon=True).start()


def _pour(source: socket.socket, target: socket.socket, done: threading.Semaphore) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
    done.release()


def _shut(here: socket.socket, there: socket.socket, done: threading.Semaphore) -> None:
    done.acquire()
    done.acquire()
    here.close()
    there.close()


def _in_thread(call: Callable[[], Result]) -> Result:
    """Namespaces are a thread's: one of its own does it and is gone."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((True, call()))
        except BaseException as error:
            found.append((False, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    good, value = found[0]
    if not good:
        raise value
    result: Result = value
    return result
