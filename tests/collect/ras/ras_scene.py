"""An instance whose RAS is a fake server, and a folder that takes what is collected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fake_server import KILLED_PIDS

from rankmuster.collect.collector import Assessment, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Outcome
from rankmuster.collect.ras.collector import RasCollector
from rankmuster.collect.sink import Store
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.collect.wishes import RasRisk, Wishes
from rankmuster.evidence.bundle import Evidence, load
from rankmuster.model.fault import Phase, Progress

HOST = "node1"
STOPPED = Assessment(Progress.STOPPED, Phase.SERVING, True, False, "no iteration for 30 s")
MOVING = Assessment(Progress.ADVANCING, Phase.SERVING, False, True, "iterations advance")
UNSEEN = Assessment(Progress.UNKNOWN, None, False, False, "nothing could be seen")
STUCK_IN_INIT = Assessment(Progress.STOPPED, Phase.INIT, True, False, "stuck in init")
STARTING = Assessment(Progress.STARTING, None, False, False, "starting")

LIBRARY = "/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"


def install(root: Path, release: str, *, packaged: str | None = None) -> Path:
    """A file that looks like NCCL's library to whoever searches its text, below `root`; its package beside it."""
    library = root / LIBRARY.lstrip("/")
    library.parent.mkdir(parents=True, exist_ok=True)
    text = b"\x7fELF" + bytes(9000) + f"NCCL version {release}+cuda12.9\0NCCL version detected : rank %d\0".encode()
    library.write_bytes(text)
    (root / f"venv/lib/python3.12/site-packages/nvidia_nccl_cu12-{packaged or release}.dist-info").mkdir()
    return library


class Stage:
    """Everything around one run. `release`: what the instance has mapped; None: nothing can be told."""

    def __init__(self, folder: Path, port: int, *, release: str | None = None, host: str = "127.0.0.1") -> None:
        self.folder = folder
        self.environ = {"NCCL_RAS_ADDR": f"[{host}]:{port}" if ":" in host else f"{host}:{port}"}
        self.proc = folder / "proc"
        self.root = folder / "root"
        self.pids = KILLED_PIDS
        self.wishes = Wishes(ras_gap_seconds=0.03)
        self.store = Store(folder / "bundle")
        self.nccl_loaded: bool | None = None
        (self.proc / "71").mkdir(parents=True)
        if release is not None:
            install(self.root, release)
            maps = f"7f0000000000-7f0000001000 r-xp 00000000 08:01 42 {LIBRARY}\n"
            (self.proc / "71" / "maps").write_text(maps)

    def scene(self, *, risk: RasRisk = RasRisk.AFTER_STOP_CONFIRMED, polls: int = 2) -> Scene:
        processes = tuple(
            ProcessOfInstance(
                pid=71,
                inner_pid=pid,
                host_pid=None,
                start_ticks=1,
                started_at=0.0,
                role=Role.WORKER,
                name="VLLM::Worker",
                rank=rank,
                root=self.root,
                environ=self.environ,
            )
            for rank, pid in enumerate(self.pids)
        )
        target = Target("llm-0", HOST, processes, nccl_loaded=self.nccl_loaded)
        machine = Machine(hostname=HOST, proc=self.proc)
        return Scene(target, machine, replace(self.wishes, ras_risk=risk, ras_polls=polls))

    def collect(self, scene: Scene | None = None, *, seconds: float = 8.0) -> Outcome:
        return RasCollector().collect(scene or self.scene(), self.store.sink("ras"), Deadline.after(seconds))

    def files(self) -> list[str]:
        return sorted(piece.path for piece in self.store.pieces())

    def replies(self) -> list[bytes]:
        """The raw replies, in the order in which they were asked for."""
        paths = [path for path in self.files() if path.endswith((".json", ".txt")) and path[4].isdigit()]
        return [(self.store.folder / path).read_bytes() for path in paths if ".error." not in path]

    def errors(self) -> list[str]:
        return [(self.store.folder / path).read_text() for path in self.files() if path.endswith(".error.txt")]

    def record(self) -> str:
        return (self.store.folder / "ras" / "probe.json").read_text()

    def evidence(self) -> Evidence:
        return load(self.store.folder)


def ready(scene: Scene, assessment: Assessment | None = STOPPED, *, dumped: bool = True) -> Scene:
    """The scene with what the other collectors have said by now."""
    if assessment is not None:
        scene.board.post_assessment(assessment)
    if dumped:
        scene.board.post_dumped()
    return scene
