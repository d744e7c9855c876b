"""Synthetic traffic and what a serving engine makes of it, second by second: the truth that signals are made from.

Deterministic by its generator. Steps of a second are fine enough for looks that are five apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.random import Generator


class Traffic(str, Enum):
    BUSY = "busy"
    BURSTY = "bursty"
    IDLE = "idle"
    LONG_PREFILL = "long-prefill"
    RESTART = "restart"
    SCRAPE_FAILURE = "scrape-failure"
    HOURLY = "one-request-an-hour"


class Stage(str, Enum):
    """Where an incarnation is."""

    DOWN = "down"  # no process
    LOADING = "loading"  # weights come over PCIe, ranks that have theirs wait for the others
    CAPTURE = "capture"  # warm-up and CUDA-graph capture
    SERVING = "serving"


@dataclass(frozen=True, slots=True)
class Request:
    """`prefill`: seconds of the whole engine; `tokens`: to generate. `at`: seconds since the beginning."""

    at: float
    prefill: float
    prompt: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Second:
    """The instance at the end of one second; counters count since the incarnation's start.

    `computing`, `prefilling`: parts of this second. `shown_running`: as the engine's gauges have it, which follow its
    steps. `late_running`, `late_waiting`: as gauges have it that are written with a prefill, every `LATE_STEPS` steps,
    and `LATE_SECONDS` after the last time (SGLang). `stopped`: the fault has come and there was work since.
    """

    at: float
    stage: Stage
    stage_seconds: float
    incarnation: int
    running: int
    waiting: int
    shown_running: int
    shown_waiting: int
    late_running: int
    late_waiting: int
    prompt: float
    generated: float
    steps: float
    prefilled: float
    finished: float
    finished_tokens: float
    kv: float
    computing: float
    prefilling: float
    stopped: bool


DECODE_RATE = 40.0
"""Tokens per second of one request alone; 2 % less for each other one."""

MOST_RUNNING = 64

LATE_STEPS, LATE_SECONDS = 40.0, 30.0
"""SGLang's `decode_log_interval`, and how long its idle scheduler leaves its gauges as they are."""


def requests(kind: Traffic, seconds: float, rng: Generator) -> list[Request]:
    """What arrives, in order of time."""
    if kind is Traffic.IDLE:
        return []
    if kind is Traffic.HOURLY:
        times = np.arange(0.0, seconds, 3600.0) + rng.uniform(60, 3500, size=len(np.arange(0.0, seconds, 3600.0)))
        return [Request(float(at), float(rng.uniform(0.1, 2)), 800, int(rng.integers(50, 2000))) for at in times]
    gap = {Traffic.BURSTY: 90.0, Traffic.LONG_PREFILL: 120.0}.get(kind, 0.7)
    times = np.cumsum(rng.exponential(gap, size=int(seconds / gap * 1.2) + 10))
    found: list[Request] = []
    for at in times[times < seconds]:
        if kind is Traffic.BURSTY:
            found += [_usual(float(at), rng) for _ in range(int(rng.integers(3, 50)))]
        elif kind is Traffic.LONG_PREFILL:
            found.append(Request(float(at), float(rng.uniform(15, 90)), 200_000, int(rng.integers(50, 600))))
        else:
            found.append(_usual(float(at), rng))
    return found


def _usual(at: float, rng: Generator) -> Request:
    prompt = int(rng.integers(100, 2000))
    return Request(at, prompt / 20_000, prompt, int(rng.integers(30, 500)))


def restarts(kind: Traffic, seconds: float, rng: Generator) -> list[float]:
    """When the instance is taken down, to be started again at once."""
    if kind is not Traffic.RESTART:
        return []
    return [float(at) for at in np.arange(900.0, seconds, 1800.0) + rng.uniform(0, 600)]


@dataclass(slots=True)
class _State:
    running: list[list[float]] = field(default_factory=list)  # prefill left, tokens left, prompt, tokens, prefill
    waiting: list[Request] = field(default_factory=list)
    shown: tuple[int, int] = (0, 0)
    before: tuple[int, int] = (0, 0)  # when the last second's work began
    late: tuple[int, int] = (0, 0)
    late_at: float = 0.0
    late_steps: float = 0.0
    prompt: float = 0.0
    generated: float = 0.0
    steps: float = 0.0
    prefilled: float = 0.0
    finished: float = 0.0
    finished_tokens: float = 0.0


def seconds_of(
    kind: Traffic, arrivals: list[Request], seconds: int, rng: Generator, fault_at: float | None = None
) -> Iterator[Second]:
    """Every second of it. From `fault_at` on nothing is computed any more."""
    state = _State()
    downs = restarts(kind, seconds, rng)
    incarnation, stage, stage_end, began = 1, Stage.SERVING, float("inf"), 0.0
    compiled = True
    compile_end = 0.0
    following = 0
    for second in range(seconds):
        start, end = float(second), float(second + 1)
        faulty = fault_at is not None and fault_at < end
        if downs and start >= downs[0]:
            downs.pop(0)
            state = _State()
            stage, stage_end, began = Stage.DOWN, start + float(rng.uniform(15, 60)), start
        elif start >= stage_end:
            began = start
            if stage is Stage.DOWN:
                incarnation += 1
                stage, stage_end = Stage.LOADING, start + float(rng.uniform(60, 240))
            elif stage is Stage.LOADING:
                stage, stage_end = Stage.CAPTURE, start + float(rng.uniform(20, 60))
            else:
                stage, stage_end, compiled = Stage.SERVING, float("inf"), False
        while following < len(arrivals) and arrivals[following].at < end:
            if stage is Stage.SERVING:
                state.waiting.append(arrivals[following])
            following += 1
        budget = 1.0
        if faulty and fault_at is not None:
            budget = max(fault_at - start, 0.0)
        computing = prefilling = 0.0
        if stage is Stage.SERVING and budget > 0:
            if not compiled and (state.waiting or state.running):
                compiled, compile_end = True, start + float(rng.uniform(5, 60))
                _admit(state)
                state.shown = (len(state.running), len(state.waiting))
            if start >= compile_end:
                computing, prefilling = _work(state, budget)
        if stage is Stage.SERVING and (computing or not state.running):
            _write_late(state, end, prefilling > 0)
        # A cache fills chunk by chunk of a prefill, then token by token.
        held = sum(entry[2] * (1 - entry[0] / entry[4]) + entry[3] - entry[1] for entry in state.running)
        yield Second(
            end,
            stage,
            end - began,
            incarnation,
            len(state.running),
            len(state.waiting),
            *state.shown,
            *state.late,
            state.prompt,
            state.generated,
            state.steps,
            state.prefilled,
            state.finished,
            state.finished_tokens,
            min(held / 1e6, 1.0),
            computing,
            prefilling,
            faulty and bool(state.running or state.waiting),
        )


def _admit(state: _State) -> None:
    while state.waiting and len(state.running) < MOST_RUNNING:
        request = state.waiting.pop(0)
        prompt, tokens = float(request.prompt), float(request.tokens)
        state.running.append([request.prefill, tokens, prompt, tokens, request.prefill])


def _write_late(state: _State, at: float, prefilled: bool) -> None:
    """Load as it was before this second's last steps, where it is written at all."""
    resting = not state.running and at - state.late_at >= LATE_SECONDS
    if prefilled or resting or state.steps - state.late_steps >= LATE_STEPS:
        state.late, state.late_at, state.late_steps = state.before if not resting else (0, 0), at, state.steps


def _work(state: _State, budget: float) -> tuple[float, float]:
    """One second's work; parts of it in which it computed, and in which it prefilled."""
    _admit(state)
    state.before = (len(state.running), len(state.waiting))
    if not state.running:
        state.shown = (0, len(state.waiting))
        return 0.0, 0.0
    left, prefilling = budget, 0.0
    for entry in state.running:
        if entry[0] > 0 and left > 0:
            used = min(entry[0], left)
            state.prefilled += entry[2] * used / entry[4]
            entry[0] -= used
            left -= used
            prefilling += used
            if entry[0] <= 0:
                state.prompt += entry[2]
                state.steps += 1
    decoding = [entry for entry in state.running if entry[0] <= 0]
    # Chunks of a prefill share their steps with what decodes.
    share = left + 0.3 * prefilling
    if decoding:
        rate = DECODE_RATE / (1 + 0.02 * len(decoding))
        state.steps += rate * share
        for entry in decoding:
            made = min(entry[1], rate * share)
            entry[1] -= made
            state.generated += made
            if entry[1] <= 0:
                state.finished += 1
                state.finished_tokens += entry[3]
    state.running = [entry for entry in state.running if entry[1] > 0]
    state.shown = (len(state.running), len(state.waiting))
    return budget, prefilling
