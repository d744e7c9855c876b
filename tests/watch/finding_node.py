"""A node whose processes a test starts and ends, and a finder that looks at it on a clock that the test moves."""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.watch.finding import Finder

sys.path.append(str(Path(__file__).parents[1] / "collect" / "find"))
fake_proc = import_module("fake_proc")

__all__ = ["Node", "fake_proc"]


class Node:
    """A fake /proc with finders on it. `asked`: how often NVML was asked; `nvml`: what it says."""

    def __init__(self, folder: Path) -> None:
        self.fake = fake_proc.FakeProc(folder / "proc")
        self.now = 1000.0
        self.asked = 0
        self.nvml = None

    def finder(self, **more) -> Finder:
        def ask(_seconds):
            self.asked += 1
            return self.nvml

        machine = Machine(hostname="node0", proc=self.fake.root)
        given = {"clock": lambda: self.now, "unix_now": lambda: fake_proc.NOW, "ask_nvml": ask} | more
        return Finder(machine, **given)

    def serve(self, base: int, ranks: int = 2, port: int = 8000, **environ: str) -> range:
        """A vLLM server with one worker a rank; the pids."""
        titles = [f"VLLM::Worker_TP{rank}" for rank in range(ranks)]
        fake_proc.vllm(self.fake, base, "-tp", str(ranks), workers=titles, port=port, **environ)
        return range(base, base + 3 + ranks)

    def kill(self, *pids: int) -> None:
        for pid in pids:
            shutil.rmtree(self.fake.root / str(pid))

    def contain(self, *pids: int) -> None:
        """As if these ran in a container: only NVML knows for certain which GPUs they have."""
        for number, pid in enumerate(pids):
            status = self.fake.root / str(pid) / "status"
            status.write_text(status.read_text().replace(f"NSpid:\t{pid}", f"NSpid:\t{pid}\t{7 + number}"))

    def look(self, finder: Finder, later: float = 0.0):
        """One look, `later` seconds after the last; a search that is due is waited for."""
        self.now += later
        return finder.look(Deadline.after(20))
