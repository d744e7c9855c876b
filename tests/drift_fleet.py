"""Fleets made up: nodes with fingerprints, a run of each a day, and what happens to some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rankmuster.baseline.drift.fleet import Fleet, NodePast
from rankmuster.model.benchmark import AlgorithmChoice, Cell, Operation
from rankmuster.model.fingerprint import NONE, Fingerprint, NetworkDevice
from rankmuster.model.history import CellHistory, ChangePoint, ClassHistory
from rankmuster.model.unknown import Unknown

DAY = 86_400.0
START = 1_790_000_000.0
PROFILE = "tp8-decode@0123456789ab"

SIZES = {1 << 13: (0.4, 28.0), 1 << 20: (40.0, 40.0), 1 << 26: (308.0, 326.0), 1 << 28: (338.0, 1190.0)}
"""Bytes -> bus GB/s and microseconds of a healthy run, as four H200s have them."""

NODE_SD, RUN_SD = 0.005, 0.01
"""Between nodes of a class, and between runs of a node, at large sizes."""

SLOW_MODE = 0.15
"""Share of runs whose small sizes are in the slow mode, 40 % above the fast one."""

Speed = Callable[[int, float], float]
"""(node, day) -> factor of the bandwidth at large sizes."""


def fingerprint(
    host: str,
    *,
    day: float = 0.0,
    driver: str | Unknown = "580.1",
    class_hash: str | Unknown | None = None,
    settings: Mapping[str, str] | None = None,
    **fields: object,
) -> Fingerprint:
    """Of a node with eight H200s. The class hash names the driver and settings, so that it changes with them."""
    given = dict(settings or {})
    own = "class-" + "-".join([str(driver), *(f"{key}={value}" for key, value in sorted(given.items()))])
    made = Fingerprint(
        host=host,
        taken_at=START + day * DAY,
        image_digest="sha256:" + "ab" * 32,
        cuda_version="12.9",
        nccl_version="2.28.9",
        pytorch_version="2.11.0",
        engine="vllm",
        engine_version="0.14",
        gpu_model="NVIDIA H200",
        gpu_count=8,
        driver=driver,
        topology_hash="sha256:" + "cd" * 32,
        nccl_test_profile=NONE,
        network_device_set=(NetworkDevice("MT4129", "InfiniBand", 400.0, "28.39.1002", 8),),
        nic_order=tuple(range(8)),
        settings=given,
        kin_hash=f"kin-{driver}",
        class_hash=own if class_hash is None else class_hash,
        node_hash=f"node-{host}",
    )
    return replace(made, **fields)  # type: ignore[arg-type]


Run = tuple[str, float, dict[int, tuple[float, float, float]], tuple[AlgorithmChoice, ...]]
"""Node hash, unix seconds, values of each size (bus GB/s, microseconds, percent between ranks), choices."""


class Made:
    """Runs as they are made, by class; `history(class)` is what a store would give."""

    def __init__(self, seed: int = 1) -> None:
        self.random = np.random.default_rng(seed)
        self.runs: dict[str, list[Run]] = {}

    def run(
        self,
        host: str,
        class_hash: str,
        day: float,
        *,
        level: float = 1.0,
        small: float = 1.0,
        spread: float = 1.5,
        choices: tuple[AlgorithmChoice, ...] = (),
    ) -> None:
        """One run. `level`: factor of the bandwidth at large sizes; `small`: of the time at small ones."""
        session = float(np.exp(self.random.normal(0, RUN_SD * 0.7)))
        slow = 1.4 if self.random.random() < SLOW_MODE else 1.0
        values = {}
        for size, (busbw, time_us) in SIZES.items():
            if size >= 1 << 24:
                factor = level * session * float(np.exp(self.random.normal(0, RUN_SD * 0.7)))
            else:
                factor = float(np.exp(self.random.normal(0, 0.05))) / (slow * small)
            ranks = abs(float(self.random.normal(spread, 0.5)))
            values[size] = (busbw * factor, time_us / factor, ranks)
        self.runs.setdefault(class_hash, []).append((f"node-{host}", START + day * DAY, values, choices))

    def history(self, class_hash: str, points: Sequence[ChangePoint] = ()) -> ClassHistory:
        runs = sorted(self.runs.get(class_hash, []), key=lambda run: run[1])
        cells = {}
        for size in SIZES:
            columns = np.array([run[2][size] for run in runs]).reshape(len(runs), 3).T
            cell = Cell(Operation.ALL_REDUCE, size, "bfloat16")
            cells[cell] = CellHistory(cell, np.arange(len(runs)), columns[0], columns[1], columns[1] * 0.98, columns[2])
        return ClassHistory(
            class_hash=class_hash,
            profile=PROFILE,
            nodes=tuple(run[0] for run in runs),
            started_at=np.array([run[1] for run in runs]),
            records=tuple(f"{class_hash}-{index}" for index in range(len(runs))),
            cells=cells,
            change_points=tuple(points),
            total=len(runs),
            kept_out={},
            choices=tuple(run[3] for run in runs),
        )

    def histories(self) -> tuple[ClassHistory, ...]:
        return tuple(self.history(name) for name in sorted(self.runs))


def healthy(_node: int, _day: float) -> float:
    return 1.0


def fleet(
    nodes: int,
    days: int = 30,
    *,
    speed: Speed = healthy,
    driver: Callable[[int, float], str] = lambda _node, _day: "580.1",
    seed: int = 1,
) -> Fleet:
    """A run of each node a day, at its own hour; a fingerprint at the start and whenever the driver is another one."""
    made = Made(seed)
    own = np.exp(made.random.normal(0, NODE_SD, nodes))
    hour = made.random.random(nodes)
    past = []
    for node in range(nodes):
        host = f"h-{node:04d}"
        prints = [fingerprint(host, driver=driver(node, 0.0))]
        for day in range(days):
            at = day + float(hour[node])
            now = driver(node, at)
            if now != prints[-1].driver:
                prints.append(fingerprint(host, day=at, driver=now))
            made.run(host, str(prints[-1].class_hash), at, level=float(own[node]) * speed(node, at))
        prints.append(fingerprint(host, day=days, driver=str(prints[-1].driver)))
        past.append(NodePast(host, f"node-{host}", tuple(prints), runs={"complete": days}))
    return Fleet(tuple(past), made.histories(), START + days * DAY)
