"""A pod made of namespaces of this machine's (pids, mounts, host name): two ranks and a sidecar.

Run as a program it is the pod's process 1: `kube_pod_namespace.py FOLDER COMMAND...`, COMMAND being the sidecar's.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kube_wire_talk import TOKEN, talk

UID = "aaaaaaaa-0000-0000-0000-000000000001"
INSTANCE = "ns.llm.0"
HOST = "llm-0"
PROGRAM = [sys.executable, "-m", "rankmuster.cli.main", "kube"]
RANK = "import time; time.sleep(300)"


def main(folder: Path, command: list[str]) -> int:
    """Process 1. On SIGTERM the ranks end first and the sidecar is told then, as the kubelet does with a native one."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    (folder / "hostname").write_text(f"{HOST}\n")
    subprocess.run(["mount", "--bind", str(folder / "hostname"), "/etc/hostname"], check=True)
    subprocess.run(["hostname", HOST], check=True)
    evidence = folder / "evidence"
    own = {
        "RANKMUSTER_INSTANCE": INSTANCE,
        "POD_UID": UID,
        "POD_NAME": HOST,
        "POD_NAMESPACE": "ns",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "TORCH_FR_DUMP_TEMP_FILE": f"{evidence}/nccl_trace_rank_",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_FILE": f"{evidence}/nccl_%h_%p.log",
    }
    environ = {**os.environ, **own}
    ranks = [
        os.posix_spawn(
            sys.executable, [sys.executable, "-c", RANK], {**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in (0, 1)
    ]
    (folder / "ranks.json").write_text(json.dumps(ranks))
    sidecar = subprocess.Popen(command)

    def end(*_: object) -> None:
        for pid in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        sidecar.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    while sidecar.poll() is None:
        for pid in ranks:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.05)
    return sidecar.returncode


@dataclass
class Pod:
    """`ranks`: the host's numbers; `inner`: the pod's own. `address`: of the sidecar."""

    process: subprocess.Popen[bytes]
    folder: Path
    address: tuple[str, int]
    ranks: list[int] = field(default_factory=list)
    inner: list[int] = field(default_factory=list)

    @property
    def init(self) -> int:
        """Process 1 by the host's number."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])


def until(true: object, seconds: float = 30.0) -> None:
    """Waits for it."""
    assert callable(true)
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


@contextmanager
def agent(folder: Path, port: int, **environ: str) -> Iterator[tuple[str, int]]:
    """The node's agent as a process."""
    (folder / "token").write_text(TOKEN)
    command = [*PROGRAM, "agent", "--listen", f"127.0.0.1:{port}", "--token-file", str(folder / "token")]
    process = subprocess.Popen([*command, "--folder", str(folder / "node")], env={**os.environ, **environ})
    address = ("127.0.0.1", port)
    try:
        until(lambda: healthy(address))
        yield address
    finally:
        process.terminate()
        assert process.wait(20) == 0


@contextmanager
def pod(folder: Path, port: int, agent_port: int) -> Iterator[Pod]:
    """The pod. Skips where no namespace may be made, or the ranks' numbers are not one after the other here."""
    (folder / "token").write_text(TOKEN)
    listen = ["--listen", f"127.0.0.1:{port}", "--token-file", str(folder / "token"), "--grace", "20"]
    own = ["--folder", str(folder / "evidence"), "--work", str(folder / "work"), "--period", "1"]
    whose = ["--agent", f"http://127.0.0.1:{agent_port}", "--instance", INSTANCE, "--pod-uid", UID]
    made = ["unshare", "--pid", "--fork", "--mount", "--uts", "--mount-proc", "--kill-child"]
    command = [*made, sys.executable, __file__, str(folder), *PROGRAM, "sidecar", *listen, *own, *whose]
    process = subprocess.Popen(command)
    found = Pod(process, folder, ("127.0.0.1", port))
    try:
        until(lambda: (folder / "ranks.json").exists() or process.poll() is not None)
        if process.poll() is not None:
            pytest.skip("no namespaces can be made here")
        until(lambda: (folder / "ranks.json").read_text())
        found.inner = json.loads((folder / "ranks.json").read_text())
        children = Path(f"/proc/{found.init}/task/{found.init}/children").read_text().split()
        by_inner = {int(status(int(pid), "NSpid")[-1]): int(pid) for pid in children}
        found.ranks = [by_inner[pid] for pid in found.inner]
        until(lambda: healthy(found.address))
        yield found
    finally:
        if process.poll() is None:
            process.kill()  # and with it, by --kill-child, everything of the pod
            process.wait(20)


def record(folder: Path) -> str:
    """What the sidecar has written down of the ranks."""
    return (folder / "work" / "run" / "engine.json").read_text()


def status(pid: int, name: str) -> list[str]:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.split()[1:]
    raise AssertionError(name)


def healthy(address: tuple[str, int]) -> bool:
    try:
        return talk(address, "GET", "/healthz", token=None, seconds=2.0)[0] == 200
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
