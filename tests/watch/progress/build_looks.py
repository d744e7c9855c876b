"""Small pieces of evidence for the tests of the watch."""

from __future__ import annotations

import numpy as np

from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.fault import Progress
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.instance import InstanceFacts, ProcessFacts
from rankmuster.model.plane import Plane
from rankmuster.model.stamp import unix
from rankmuster.watch.progress.loaded import Interval
from rankmuster.watch.progress.look import LookResult

WALL = 1.79e9


def page(at: float, steps: float, *, running: float = 1.0, kv: float = 0.1, source: str = "engine/s") -> EnginePage:
    stream = EngineStream("0", running, 0.0, {"vllm:generation_tokens_total": steps}, {}, {"kv": kv})
    return EnginePage(source, unix(at), "vllm", (stream,))


def sample(at: float, gpu: int, sm: float, kib: float, uuid: str | None = None) -> GpuTrack:
    def one(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([value])

    nan = one(float("nan"))
    pids = ((100 + gpu,),)
    return GpuTrack(
        "gpu",
        "h",
        gpu,
        uuid or f"GPU-{gpu}",
        None,
        one(at),
        one(sm),
        nan,
        nan,
        nan,
        one(kib),
        one(kib),
        nan,
        nan,
        nan,
        nan,
        pids,
    )


def facts(incarnation: str = "a", ranks: int = 2, started: float = WALL - 86_400) -> InstanceFacts:
    first = 100 if incarnation == "a" else 200
    processes = tuple(ProcessFacts(r, first + r, "h", r, None, None, f"GPU-{r}") for r in range(ranks))
    return InstanceFacts("instance.json", "llm", None, incarnation, ranks, started, None, processes, {})


def view(
    progress: Progress = Progress.ADVANCING,
    *,
    loaded: bool | None = True,
    worked: bool = True,
    incarnation: int = 1,
    spoke: tuple[Plane, ...] = (Plane.ENGINE,),
    started_at: float | None = -1e6,
    at: float = 0.0,
    gone: bool = False,
) -> LookResult:
    interval = Interval(("s", "vllm", "0"), at, 5.0, 1.0, 100.0, worked, bool(loaded), worked, False)
    return LookResult(
        progress, True, spoke, "because", None, (), loaded, (interval,), {}, incarnation, started_at, gone
    )
