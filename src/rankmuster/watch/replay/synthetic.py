"""Signals of synthetic traffic: pages, GPU samples and processes as a watch would have seen them, and its mishaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.random import Generator

from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.instance import InstanceFacts, ProcessFacts
from rankmuster.model.node import NodeState, NodeTask, TaskLook, TaskState
from rankmuster.model.plane import Plane
from rankmuster.model.stamp import unix
from rankmuster.watch.replay.traffic import Second, Stage, Traffic

HOST = "192.0.2.7"


class EngineKind(str, Enum):
    VLLM = "vllm"
    SGLANG = "sglang"
    SGLANG_OLD = "sglang-before-0.5.8"  # its counters move when requests end


class StopKind(str, Enum):
    GRAPH = "graph-decode-stop"  # one rank replays no more: it is idle, its peers spin
    FROZEN = "frozen-process"
    LINK = "cut-link"  # all spin
    LOOP = "python-loop"
    SEND = "send-that-never-comes"
    ENGINE = "engine-loop"  # the scheduler hangs: nobody spins


@dataclass(frozen=True, slots=True)
class Moment:
    """What one look brought: observations in order, and the planes that were asked in vain."""

    now: float
    unix: float
    observations: tuple[object, ...]
    failures: tuple[Plane, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """`planes`: engine, hardware or both. `looks_from`: monotonic seconds of the first look."""

    traffic: Traffic
    engine: EngineKind
    planes: frozenset[Plane]
    stop: StopKind | None = None
    ranks: int = 8
    culprit: int = 3
    period: float = 5.0
    looks_from: float = 0.0


LOADING_TX = 0.05
"""Of the bytes that come over PCIe while weights are loaded, those that leave: requests for them."""

RETRY_FAILS = 0.25
"""How often the one immediate retry of a scrape fails too, outages aside: what made it fail (a busy server, a full
queue) often lasts. An assumption, and no measurement; in an outage every retry fails."""

EPOCH = 1.79e9
"""The wall clock at the beginning."""


def moments(plan: Plan, seconds: Iterator[Second], rng: Generator) -> Iterator[Moment]:
    """One a look, a period apart but for jitter, from what each second was."""
    ranks = plan.ranks
    nvlink = np.zeros(ranks)
    pcie_tx, pcie_rx = np.zeros(ranks), np.zeros(ranks)
    wall = EPOCH
    due = plan.looks_from + float(rng.uniform(0, plan.period))
    outage_until = 0.0
    failing = 0.05 if plan.traffic is Traffic.SCRAPE_FAILURE else 0.002
    told = 0
    between: list[_Sample] = []
    between_due = due - plan.period / 2
    for second in seconds:
        spin = _doing(plan, second, rng)
        nvlink += spin.nvlink
        pcie_rx += spin.pcie
        pcie_tx += spin.pcie * (LOADING_TX if second.stage is Stage.LOADING else 1.0)
        if second.at >= between_due:
            # GPUs are sampled twice a look.
            if Plane.HARDWARE in plan.planes and rng.random() >= failing / 4:
                between = [_Sample(between_due, spin.sm, nvlink.copy(), pcie_tx.copy(), pcie_rx.copy())]
            between_due += plan.period
        if second.at < due:
            continue
        # What a second did is in its counters at its end: that is when they are read.
        now = due + float(abs(rng.normal(0, 0.03)))
        due += plan.period
        failures: list[Plane] = []
        if plan.traffic is Traffic.SCRAPE_FAILURE:
            if rng.random() < 0.002:
                outage_until = now + float(rng.uniform(30, 400))
            if rng.random() < 0.001:
                # A wall clock that is set, by hours.
                wall += float(rng.uniform(-7200, 7200))
        samples, between = between, []
        seen: list[object] = []
        if second.incarnation != told and second.stage is not Stage.DOWN:
            told = second.incarnation
            seen.append(_facts(plan, second, wall))
        if Plane.ENGINE in plan.planes:
            failed = second.stage is not Stage.SERVING or now < outage_until or rng.random() < failing * RETRY_FAILS
            if failed:
                failures.append(Plane.ENGINE)
            else:
                page = _page(plan.engine, second, wall + now)
                seen += [page, page] if rng.random() < 0.001 else [page]
        if Plane.HARDWARE in plan.planes:
            if rng.random() < failing / 4:
                failures.append(Plane.HARDWARE)
            else:
                samples.append(_Sample(now, spin.sm, nvlink, pcie_tx, pcie_rx))
            for sample in samples:
                seen += _tracks(plan, second, sample, wall)
        if told:
            seen.append(_node(plan, second, wall + now))
        yield Moment(now, wall + now, tuple(seen), tuple(failures))


Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class _Sample:
    """Of all GPUs at `at` (monotonic seconds): SM utilisation, and the counters, in KiB."""

    at: float
    sm: Floats
    nvlink: Floats
    pcie_tx: Floats
    pcie_rx: Floats


@dataclass(frozen=True, slots=True)
class _Doing:
    """Per GPU: SM utilisation at the end of the second, KiB over NVLink and PCIe in it."""

    sm: Floats
    nvlink: Floats
    pcie: Floats


def _doing(plan: Plan, second: Second, rng: Generator) -> _Doing:
    ranks = plan.ranks
    nothing = np.zeros(ranks)
    if second.stopped and not second.computing:
        sm = np.full(ranks, 100.0)
        if plan.stop is StopKind.ENGINE:
            sm[:] = 0.0
        elif plan.stop is not StopKind.LINK:
            sm[plan.culprit] = 0.0
        return _Doing(sm, nothing, nothing)
    if second.stage is Stage.LOADING:
        # Half of the ranks have their weights after a minute and wait for the others in a barrier.
        waiting = (np.arange(ranks) % 2 == 0) & (second.stage_seconds > 60)
        last = second.stage_seconds > 75
        sm = np.where(waiting, 100.0, 0.0)
        return _Doing(sm, nothing, np.where(waiting | last, 0.0, 5e5))
    if second.stage is Stage.CAPTURE:
        return _Doing(rng.uniform(20, 100, ranks), rng.uniform(1e3, 1e5, ranks), nothing + 10)
    if not second.computing:
        return _Doing(nothing, nothing, nothing + 2)
    share = second.prefilling / max(second.computing, 1e-9)
    traffic = second.computing * (share * 4e6 + (1 - share) * 5e5)
    sm = np.full(ranks, 100.0) if share > 0.5 else rng.uniform(70, 100, ranks)
    return _Doing(sm, traffic * rng.uniform(0.9, 1.1, ranks), nothing + 200)


def shown(kind: EngineKind, second: Second) -> tuple[int, int]:
    """Running and waiting requests, as the engine's page has them."""
    if kind is EngineKind.VLLM:
        return second.shown_running, second.shown_waiting
    return second.late_running, second.late_waiting


def _page(kind: EngineKind, second: Second, at: float) -> EnginePage:
    if kind is EngineKind.VLLM:
        steps = {
            "vllm:iteration_tokens_total_count": float(int(second.steps)),
            "vllm:generation_tokens_total": float(int(second.generated)),
            "vllm:prompt_tokens_total": second.prompt,
        }
        ends = {"vllm:request_success_total": second.finished}
        gauges = {"vllm:kv_cache_usage_perc": round(second.kv, 6)}
    else:
        steps = {}
        if kind is EngineKind.SGLANG:
            steps = {
                "sglang:realtime_tokens_total decode": float(int(second.generated)),
                "sglang:realtime_tokens_total prefill_compute": float(int(second.prefilled)),
            }
        ends = {
            "sglang:generation_tokens_total": second.finished_tokens,
            "sglang:num_requests_total": second.finished,
        }
        gauges = {"sglang:token_usage": round(second.kv, 6)}
    running, waiting = shown(kind, second)
    stream = EngineStream("0", float(running), float(waiting), steps, ends, gauges)
    return EnginePage("engine/server", unix(at), kind.value.partition("-")[0], (stream,))


def _tracks(plan: Plan, second: Second, sample: _Sample, wall: float) -> list[GpuTrack]:
    unknown = np.array([np.nan])
    time = np.array([wall + sample.at])
    there = second.stage is not Stage.DOWN
    return [
        GpuTrack(
            source="gpu-counters",
            host=HOST,
            gpu=gpu,
            uuid=f"GPU-{gpu}",
            bus_id=None,
            time=time,
            sm_percent=sample.sm[gpu : gpu + 1],
            memory_percent=unknown,
            power_w=unknown,
            clock_mhz=unknown,
            nvlink_tx_kib=sample.nvlink[gpu : gpu + 1].copy(),
            nvlink_rx_kib=sample.nvlink[gpu : gpu + 1].copy(),
            pcie_tx_kib=sample.pcie_tx[gpu : gpu + 1].copy(),
            pcie_rx_kib=sample.pcie_rx[gpu : gpu + 1].copy(),
            rdma_tx_kib=unknown,
            rdma_rx_kib=unknown,
            pids=((_pid(second, gpu),) if there else (),),
        )
        for gpu in range(plan.ranks)
    ]


def _pid(second: Second, rank: int) -> int:
    return 1000 * second.incarnation + rank


def _facts(plan: Plan, second: Second, wall: float) -> InstanceFacts:
    processes = tuple(
        ProcessFacts(rank, _pid(second, rank), HOST, rank, None, None, f"GPU-{rank}") for rank in range(plan.ranks)
    )
    started = wall + second.at - second.stage_seconds
    if second.incarnation == 1:
        started -= 86_400
    return InstanceFacts(
        "instance.json", "llm-0", None, f"start-{second.incarnation}", plan.ranks, started, None, processes, {}
    )


def _node(plan: Plan, second: Second, at: float) -> NodeState:
    gone = second.stage is Stage.DOWN
    tasks = []
    for rank in range(plan.ranks):
        state = TaskState.GONE if gone else TaskState.SLEEPING
        if plan.stop is StopKind.FROZEN and rank == plan.culprit and second.stopped:
            state = TaskState.STOPPED
        tasks.append(NodeTask(_pid(second, rank), rank, "worker", "worker", (TaskLook(at, state),)))
    return NodeState("platform/node.json", HOST, (at,), tuple(tasks))
