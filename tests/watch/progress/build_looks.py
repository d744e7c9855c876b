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
from rankmuster.watch.progress.look import EXPECTED, LookResult, look
from rankmuster.watch.progress.model import Judgement, ProgressModel
from rankmuster.watch.progress.settings import DEFAULTS
from rankmuster.watch.progress.window import Window

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


class Watched:
    """A real window and model over one instance of `ranks`, a look in 5 s.

    `set_by`: seconds by which the wall clock was set; `draining`: what the platform says.
    """

    def __init__(self, expected: frozenset[Plane] = EXPECTED, ranks: int = 4, started: float = WALL - 86_400) -> None:
        self.window, self.model, self.expected = Window(DEFAULTS), ProgressModel(), expected
        self.now, self.set_by, self.draining = 0.0, 0.0, False
        self.judged: list[Judgement] = []
        self.window.feed(0.0, WALL, facts(ranks=ranks, started=started))

    @property
    def wall(self) -> float:
        return WALL + self.now + self.set_by

    def __call__(self, *observations: object, failing: Plane | None = None, seconds: float = 5.0) -> Judgement:
        for one in observations:
            self.window.feed(self.now, self.wall, one)
        if failing is not None:
            self.window.fail(self.now, failing, "no answer within 2 s")
        self.window.advance(self.now, self.wall)
        view = look(self.window, DEFAULTS, self.now, habit=self.model.habit, expected=self.expected)
        self.judged.append(self.model.step(self.now, view, self.draining))
        self.now += seconds
        return self.judged[-1]

    @property
    def events(self) -> list[str]:
        return [one.event.value for one in self.judged if one.event is not None]

    @property
    def states(self) -> set[Progress]:
        return {one.state for one in self.judged}
