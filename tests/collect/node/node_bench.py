"""A node in folders and an instance on it, for the tests of what the node says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rankmuster.collect.collector import Collector, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Outcome
from rankmuster.collect.sink import Store
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.collect.wishes import Wishes

HOST = "node-a1"


def worker(rank: int, *, pid: int | None = None, inner: int | None = None, host: int | None = None, **more: object):
    """A worker of rank `rank`."""
    seen = pid if pid is not None else 5000 + rank
    fields: dict[str, object] = {"start_ticks": 0, "started_at": 0.0, "role": Role.WORKER, "name": f"Worker_TP{rank}"}
    fields |= {"rank": rank, "gpus": (rank,), **more}
    return ProcessOfInstance(seen, inner if inner is not None else seen, host, **fields)  # type: ignore[arg-type]


def target(*processes: ProcessOfInstance) -> Target:
    """An instance of these processes."""
    return Target("llm-0", HOST, tuple(processes))


@dataclass
class Bench:
    """One collection in a folder."""

    folder: Path
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.folder)

    def collect(
        self,
        collector: Collector,
        *,
        target: Target | None = None,
        machine: Machine | None = None,
        seconds: float = 10.0,
        look: float = 0.05,
        ending: bool = True,
        **wishes: object,
    ) -> Outcome:
        """Runs one collector; `ending`: all others have ended already."""
        scene = Scene(target, machine or Machine(hostname=HOST), Wishes(look_seconds=look, **wishes))  # type: ignore[arg-type]
        if ending:
            scene.board.post_ending()
        return collector.collect(scene, self.store.sink(collector.name), Deadline.after(seconds))

    def text(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    @property
    def files(self) -> list[str]:
        return sorted(piece.path for piece in self.store.pieces())
