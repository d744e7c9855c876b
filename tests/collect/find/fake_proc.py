"""A /proc tree in a folder: what another machine's /proc looks like to whoever reads it from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.search import Found, Request, find
from rankmuster.collect.machine import Machine

BOOT = 1_795_000_000
NOW = 1_795_986_500.0
TICKS_LATER = 50_000


class FakeProc:
    """Writes processes as Linux shows them; `initial`: whether its pids are the machine's own, as NVML's are."""

    def __init__(self, root: Path, *, initial: bool = True) -> None:
        self.root = root
        self._write("stat", f"cpu  1 2 3\nintr 5 6\nctxt 9\nbtime {BOOT}\nprocesses 100\n".encode())
        self.add(1, 0, ["/sbin/init"], comm="systemd")
        self._link("1/ns/pid", "pid:[4026531836]" if initial else "pid:[4026533333]")

    def add(
        self,
        pid: int,
        parent: int,
        command: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        *,
        comm: str | None = None,
        state: str = "S",
        inner: Sequence[int] = (),
        uid: int = 1000,
        start: int | None = None,
        exit_status: int = 0,
        cgroup: str = "0::/\n",
        network: str = "net:[4026531840]",
        mapped: Sequence[str] = (),
        titled: bool = False,
        links: Mapping[str, str] | None = None,
    ) -> int:
        """`titled`: its title has overwritten its variables, as setproctitle does."""
        name = comm if comm is not None else (command[0].rsplit("/", 1)[-1] if command else "x")[:15]
        fields = [state, parent, pid, pid, 0, -1, 4194560, 0, 0, 0, 0, 5, 5, 0, 0, 20, 0, 1, 0]
        fields += [start if start is not None else TICKS_LATER + pid, *([0] * 29), exit_status]
        self._write(
            f"{pid}/stat",
            f"{pid} ({name}) ".encode("utf-8", "surrogateescape") + " ".join(map(str, fields)).encode() + b"\n",
        )
        pids = "\t".join(map(str, (pid, *inner)))
        self._write(
            f"{pid}/status",
            f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{pids}\n".encode("utf-8", "replace"),
        )
        zombie = state == "Z"
        line = b"" if zombie else b"\0".join(word.encode("utf-8", "surrogateescape") for word in command) + b"\0"
        variables = b"".join(f"{key}={value}\0".encode() for key, value in (environ or {}).items())
        self._write(f"{pid}/cmdline", line + (bytes(40) if titled else b""))
        self._write(f"{pid}/environ", bytes(len(variables) or 64) if titled else (b"" if zombie else variables))
        self._write(f"{pid}/cgroup", cgroup.encode())
        lines = (f"7f0000000000-7f0000001000 r-xp 00000000 08:01 1234    {path}\n" for path in mapped)
        self._write(
            f"{pid}/maps", ("7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0  [stack]\n" + "".join(lines)).encode()
        )
        self._link(f"{pid}/ns/net", network)
        self._link(f"{pid}/cwd", "/work")
        for path, target in (links or {}).items():
            self._link(f"{pid}/{path}", target)
        return pid

    def find(
        self,
        *pids: int,
        instance: str | None = None,
        gpu_processes: Mapping[int, tuple[Gpu, ...]] | None = None,
        gpus: Sequence[Gpu] = (),
    ) -> Found:
        """What is found in it."""
        machine = Machine(hostname="node0", proc=self.root)
        request = Request(pids, instance)
        return find(machine, request, now=NOW, gpu_processes=gpu_processes, gpus=gpus)

    def _write(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def _link(self, name: str, target: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)


def vllm(fake: FakeProc, base: int, *options: str, workers: Sequence[str], port: int = 8000, **environ: str) -> int:
    """A vLLM server with `workers` titles below one EngineCore; pids from `base` on. Returns the server's pid."""
    command = ["/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", "model", "--port", str(port), *options]
    fake.add(base, 1, command, {"PATH": "/bin", **environ})
    fake.add(
        base + 1, base, ["/opt/venv/bin/python3", "-c", "from multiprocessing.resource_tracker import main;main(4)"]
    )
    fake.add(base + 2, base, ["VLLM::EngineCore"], titled=True, comm="VLLM::EngineCor")
    nccl = ["/opt/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"]
    for number, title in enumerate(workers):
        fake.add(base + 3 + number, base + 2, [title], titled=True, comm=title[:15], mapped=nccl)
    return base
