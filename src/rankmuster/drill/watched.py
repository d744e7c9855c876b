"""A job with a real watch beside it, and what can be read off its looks: shared by faults and controls."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rankmuster.drill.faults import Fault
from rankmuster.drill.job import DrillJob
from rankmuster.drill.plan import Backend, JobPlan, Serving
from rankmuster.drill.run import Order
from rankmuster.drill.watch_result import WatchResult
from rankmuster.drill.watcher import WATCH, Look, Watcher
from rankmuster.model.fault import Progress
from rankmuster.watch.progress.model import Event

NCCL_SIZES = {"layers": 16, "pace_seconds": 0.004}
"""Of the job on GPUs where nothing else is asked for: steps of the size of a small model's, with the host's share."""
WARM_LOOKS = 3
"""Looks that show work before the fault: two intervals, the least from which anything can be told."""
WARM_SECONDS = 90.0
"""For the watch to see that the job works; then the fault is made all the same."""
TOLD_SECONDS = 45.0
"""For a stop to be told: three times as long as it may take."""

ALARMS = {Event.STOPPED.value, Event.SLOW.value, Event.GONE.value, Event.LOST_SIGHT.value}
"""Events that nobody may see of a job that is well."""


@dataclass(frozen=True, slots=True)
class WatchOrder:
    """How jobs are run. `job`: of a plain job with no fault; `sizes`: of its plan, besides.

    `verdicts`: whether to wait for collect and diagnose. `longest`: seconds of a control at most, None for its own.
    `warm_seconds`, `told_seconds`: how long is waited for a sight of work, and of the stop.
    """

    job: Order
    period: float = 5.0
    command: Sequence[str] = WATCH
    seed: int = 1
    warm_seconds: float = WARM_SECONDS
    told_seconds: float = TOLD_SECONDS
    verdicts: bool = True
    longest: float | None = None
    sizes: Mapping[str, Any] = field(default_factory=dict)

    def planned(self, fault: Fault, serving: Serving, run: int) -> tuple[Order, JobPlan]:
        """The order and plan of one job. Raises ValueError for one that cannot be."""
        own = {} if self.job.backend is Backend.GLOO else NCCL_SIZES
        sizes = {**own, **self.sizes, "serving": replace(serving, seed=self.seed + run), **self.job.plan}
        order = replace(self.job, fault=fault, plan=sizes, ras_port=self.job.ras_port + run)
        plan = order.job_plan()
        return order, replace(plan, instance=f"{plan.instance}-{os.getpid()}-{run}")


def blank_of(name: str, plan: JobPlan, run: int, folder: Path, *, control: bool) -> WatchResult:
    return WatchResult(name, control, plan.backend.value, plan.ranks, plan.graph, run, folder=str(folder))


def job_of(order: Order, plan: JobPlan, folder: Path, port: int = 0) -> DrillJob:
    environment = order.environment(folder, plan.instance)
    return DrillJob(plan, environment, folder, worker=order.worker, port=port)


def watcher_of(order: WatchOrder, job: DrillJob, folder: Path) -> Watcher:
    return Watcher(order.command, job.plan.instance, job.metrics_url or "", order.period, folder)


def sees_work(watcher: Watcher, since: float, seconds: float) -> bool:
    """Waits until it has seen work in so many looks."""
    seen: list[float] = []

    def enough(look: Look) -> bool:
        if look.state in (Progress.ADVANCING.value, Progress.SLOW.value, Progress.IDLE.value):
            seen.append(look.at)
        return len(seen) >= WARM_LOOKS

    return watcher.until(enough, seconds, since) is not None


def states_of(looks: Sequence[Look]) -> dict[str, int]:
    return dict(Counter(look.state for look in looks))


def alarms_of(
    looks: Sequence[Look], begun: float, *, until: float = float("inf"), once: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Alarms before `until`, with seconds since `begun`. `once`: events of which the first one is true."""
    found, seen = [], set[str]()
    for look in looks:
        if look.at >= until or look.event not in ALARMS:
            continue
        if look.event not in once or look.event in seen:
            found.append(f"{look.event} after {look.at - begun:.0f} s: {look.view.get('reason')}")
        seen.add(look.event)
    return tuple(found)


def collects_in(bundles: Path) -> int:
    return sum(one.is_dir() for one in bundles.glob("*/bundle"))
