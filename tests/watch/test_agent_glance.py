"""Between two looks GPUs are sampled again where something may have stopped, and only there."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.model.fault import Progress
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.instance import InstanceFacts, ProcessFacts
from rankmuster.model.plane import Plane
from rankmuster.watch.agent import Agent
from rankmuster.watch.events import Told
from rankmuster.watch.finding import Changes
from rankmuster.watch.parts import Parts
from rankmuster.watch.signals.signal import Heard, Said, Signal

WALL = 1_796_000_000.0
RANKS = 4


def target() -> Target:
    processes = tuple(
        ProcessOfInstance(
            100 + rank, 100 + rank, 100 + rank, 1, WALL - 9000, Role.WORKER, "python", rank, rank, (rank,)
        )
        for rank in range(RANKS)
    )
    return Target("a", "node", processes, incarnation="one", world_size=RANKS)


def facts() -> InstanceFacts:
    processes = tuple(ProcessFacts(r, 100 + r, "node", r, None, None, f"GPU-{r}") for r in range(RANKS))
    return InstanceFacts("instance.json", "a", None, "one", RANKS, WALL - 9000, None, processes, {})


@dataclass
class Node:
    """GPUs that exchange bytes until they do not; rank 2 is the one that stays away. No engine is seen."""

    now: float = 1000.0
    moves: bool = True
    samples: list[float] = field(default_factory=list)
    kib: float = 1e6
    begun: bool = False
    told: bool = False

    name = "nvml"
    plane = Plane.HARDWARE
    period = 2.5
    blind_to = "which operation"

    def clock(self) -> float:
        return self.now

    def wall(self) -> float:
        return WALL + self.now

    def look(self, deadline: Deadline) -> Changes:
        first, self.begun = not self.begun, True
        return Changes((target(),), appeared=(target(),) if first else ())

    def node(self) -> Iterable[Signal]:
        return (self,)

    def instance(self, target: Target) -> Iterable[Signal]:
        return ()

    def servers(self, target: Target) -> Hashable:
        return ()

    def given_url(self, name: str) -> str | None:
        return None

    def share(self, heard: Heard, targets: Iterable[Target]) -> Iterable[tuple[str, Heard]]:
        return [(one.name, heard) for one in targets]

    def poll(self, deadline: Deadline) -> Iterable[Said]:
        self.samples.append(self.now)
        self.kib += 1e6 if self.moves else 0.0
        said = [Heard(self.now, self.wall(), self._sample(gpu)) for gpu in range(RANKS)]
        if not self.told:
            self.told = True
            said.insert(0, Heard(self.now, self.wall(), facts()))
        return said

    def close(self) -> None:
        """Nothing is held."""

    def _sample(self, gpu: int) -> GpuTrack:
        def one(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            return np.array([value])

        nan = one(float("nan"))
        busy = 0.0 if gpu == 2 and not self.moves else 100.0
        return GpuTrack(
            source="gpu-counters",
            host="node",
            gpu=gpu,
            uuid=f"GPU-{gpu}",
            bus_id=None,
            time=one(self.wall()),
            sm_percent=one(busy),
            memory_percent=nan,
            power_w=one(300.0),
            clock_mhz=nan,
            nvlink_tx_kib=one(self.kib),
            nvlink_rx_kib=one(self.kib),
            pcie_tx_kib=nan,
            pcie_rx_kib=nan,
            rdma_tx_kib=nan,
            rdma_rx_kib=nan,
            pids=((100 + gpu,),),
        )


def agent(node: Node, told: list[Told]) -> Agent:
    parts = Parts(
        finder=node,  # type: ignore[arg-type]  # it looks for instances, too
        builder=node,
        responder=None,
        sinks=(),
        tell=told.append,
        host="node",
        version="0",
        clock=node.clock,
        unix_now=node.wall,
    )
    found = Agent(parts, threading.Event())
    found.begin()
    return found


def half_periods(agent: Agent, node: Node, number: int) -> list[float]:
    """Looks and what comes between them as `run` has them; when GPUs were sampled between looks."""
    between = []
    for step in range(number):
        if step % 2 == 0:
            agent.tick()
        elif agent.watched("a").restless:
            agent.glance()
            between.append(node.now)
        node.now += 2.5
    return between


def test_gpus_at_work_are_sampled_once_a_look() -> None:
    node, told = Node(), list[Told]()
    watch = agent(node, told)
    assert half_periods(watch, node, 40) == []
    assert len(node.samples) == 20
    assert watch.tick() is Progress.ADVANCING


def test_a_stop_is_told_between_two_looks_with_the_idle_rank_named() -> None:
    node, told = Node(), list[Told]()
    watch = agent(node, told)
    half_periods(watch, node, 40)
    node.moves = False
    stopped_at = node.now
    between = half_periods(watch, node, 8)
    (stop,) = [one for one in told if one.event == "stopped"]
    assert stop.time - (WALL + stopped_at) <= 10.0
    assert stop.time - WALL in between
    assert "rank 2" in stop.text
    assert len(between) < 4  # what has stopped is not sampled more often


def test_a_pause_between_two_looks_is_no_stop() -> None:
    node, told = Node(), list[Told]()
    watch = agent(node, told)
    half_periods(watch, node, 20)
    node.moves = False
    half_periods(watch, node, 1)  # a look at which nothing has moved since the last
    assert watch.watched("a").restless
    node.moves = True
    node.now += 2.5
    half_periods(watch, node, 20)
    assert not [one for one in told if one.event == "stopped"]
