"""Time-outs from the distribution of durations: late enough for the slowest honest collective, early enough to help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rankmuster.environment import costs
from rankmuster.environment.calibrated import Grounds, Value
from rankmuster.environment.recorder_settings import wait_for

if TYPE_CHECKING:
    from rankmuster.environment.recorded import Ring
    from rankmuster.model.flight import Floats

LEAST_SAMPLES = 1000
"""For a quantile of 99.9 %, of which one sample in a thousand lies beyond. With fewer nothing is said."""
QUANTILE = 0.999
MARGIN = 10.0
"""Over that quantile: a few seconds of load do not show the longest prefill, nor the first request of a new shape."""
FLOOR_S = 120
"""Seconds. Ranks wait in a collective while one compiles or loads; vLLM writes its own first warning of such a wait
after 60 s, also during ordinary start-ups. Twice that."""
CEILING_S = 240
"""Seconds. Engines give up after 300 s; four fifths of it leave the ranks a minute to dump before that."""
HEARTBEAT_FLOOR_S = 120
"""Seconds. The watchdog asks CUDA, whose lock is held while kernels are compiled or a graph is captured."""
POLL_MS = 100
"""The watchdog looks every 100 ms; what the host noticed is late by up to that."""


def collective(rings: Sequence[Ring]) -> Value:
    """The time-out of a collective. Not a variable: an argument of the engine or of init_process_group."""
    samples, how = _samples(rings)
    if len(samples) < LEAST_SAMPLES:
        return Value(
            "collective_timeout", None, "s", Grounds.UNDECIDED,
            f"{len(samples)} finished collectives {how}; {LEAST_SAMPLES} are needed for a quantile of {QUANTILE:.1%}",
            len(samples),
            missing="dumps of more load; with TORCH_NCCL_ENABLE_TIMING=1 they hold the time on the GPU",
        )  # fmt: skip
    slow = float(np.quantile(samples, QUANTILE))
    wanted = MARGIN * max(slow, float(samples.max())) / 1000
    seconds = max(FLOOR_S, math.ceil(wanted))
    late = (
        f". Engines give up after {costs.ENGINE_STEP_SECONDS} s: raise their time-out first, or no dump is written"
        if seconds > CEILING_S
        else ""
    )
    return Value(
        name="collective_timeout",
        number=seconds,
        unit="s",
        grounds=Grounds.FLOOR if wanted < FLOOR_S else Grounds.MEASURED,
        basis=f"{_quantiles(samples)} of {len(samples)} collectives {how}; {MARGIN:g} times the longest, never below "
        f"{FLOOR_S} s",
        samples=len(samples),
        cost=f"a stop is noticed after {seconds} s, where torch's own is {costs.TORCH_TIMEOUT_SECONDS} s{late}",
    )


def _samples(rings: Sequence[Ring]) -> tuple[Floats, str]:
    timed = [ring.durations for ring in rings if len(ring.durations)]
    if timed:
        return np.concatenate(timed), "timed on the GPU"
    seen = [ring.observed for ring in rings if len(ring.observed)]
    caveat = f"from enqueue to what the host noticed (no timing: queues and up to {POLL_MS} ms of polling are in it)"
    return (np.concatenate(seen) if seen else np.zeros(0)), caveat


def _quantiles(samples: Floats) -> str:
    middle, high, higher = np.quantile(samples, [0.5, 0.99, QUANTILE])
    return f"median {middle:.3g} ms, 99 % {high:.3g} ms, 99.9 % {higher:.3g} ms, longest {samples.max():.3g} ms"


def dump_wait(size: Value, *, stacks: bool) -> Value:
    """TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC for that ring."""
    if size.number is None:
        return Value("dump_wait", None, "ms", Grounds.UNDECIDED, "the ring is undecided", missing="the ring's size")
    wait = wait_for(int(size.number), stacks=stacks)
    return Value(
        name="dump_wait",
        number=wait,
        unit="ms",
        grounds=Grounds.CONSTANT,
        basis=f"a dump may take half of one attempt, never below torch's own 15 s; {'with' if stacks else 'without'} "
        "stacks",
        cost=f"a process that cannot dump ends up to {costs.WATCHDOG_WAITS * wait // 1000} s later",
        variables=(("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", str(wait)),),
    )


def heartbeat(rings: Sequence[Ring], size: Value, *, stacks: bool) -> Value:
    """TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: longer than the watchdog waits for a dump, and than any one collective."""
    samples, how = _samples(rings)
    if size.number is None:
        return Value(
            "heartbeat", None, "s", Grounds.UNDECIDED, "the ring is undecided, and with it the wait for a dump",
            missing="the ring's size",
        )  # fmt: skip
    wait = costs.WATCHDOG_WAITS * wait_for(int(size.number), stacks=stacks) / 1000
    longest = float(samples.max()) / 1000 if len(samples) else 0.0
    seconds = math.ceil(max(HEARTBEAT_FLOOR_S, 1.5 * wait, MARGIN * longest))
    measured = MARGIN * longest > max(HEARTBEAT_FLOOR_S, 1.5 * wait)
    return Value(
        name="heartbeat",
        number=seconds,
        unit="s",
        grounds=Grounds.MEASURED if measured else Grounds.FLOOR,
        basis=f"half as much again as the watchdog's wait for a dump ({wait:g} s), and {MARGIN:g} times the longest of "
        f"{len(samples)} collectives {how} ({longest:.3g} s)",
        samples=len(samples),
        cost=f"a process whose watchdog is stuck holds its GPU for {seconds} s",
        variables=(("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", str(seconds)),),
    )
