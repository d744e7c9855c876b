"""The requests that come to a drill's serving loop: by kind of day, always the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Traffic(str, Enum):
    """FULL: more than it can do, of one size (for measurements). BUSY: Poisson, more than it can do. STEADY: a trickle.

    BURSTY: many at once, then none. IDLE: a few at the start and no more. HOURLY: one request at a time, far apart (an
    hour in small). LONG_PREFILL: one at a time, whose prompt takes half a minute.
    """

    FULL = "full"
    BUSY = "busy"
    STEADY = "steady"
    BURSTY = "bursty"
    IDLE = "idle"
    HOURLY = "hourly"
    LONG_PREFILL = "long-prefill"


@dataclass(frozen=True, slots=True)
class Request:
    """`at`: seconds since serving began. `prompt`, `tokens`: to read, and to generate.

    `chunk_seconds`: what each chunk of its prompt takes at least.
    """

    number: int
    at: float
    prompt: int
    tokens: int
    chunk_seconds: float = 0.0


FULL_GAP = 0.01
"""More than eight places can serve at a millisecond a step; who finds no place is turned away."""
BUSY_GAP = 0.1
"""Seconds between two requests, on average: twice what eight places serve at 10 ms a step."""
STEADY_GAP = 1.5
BURST_GAP = 12.0
"""Seconds between two bursts, on average: they end before the next one comes, and leave some looks without work."""
HOURLY_GAP = 40.0
"""An hour in small: more than twice the longest time in which a stop must be told."""
LONG_GAP = 45.0
USUAL_FIRST = 10.0
"""Seconds from an ordinary request to the first long one: two looks."""
LONG_CHUNKS = 100
LONG_CHUNK_SECONDS = 0.25
"""Together 25 s without a token: longer than a stop may take to be told."""
CHUNK = 2048
"""Tokens of a chunk (vLLM's max_num_batched_tokens is 2048 for online serving on smaller GPUs)."""


def requests(traffic: Traffic, seed: int) -> Iterator[Request]:
    """All requests in the order in which they come; without an end but for IDLE."""
    rng = random.Random(seed)  # noqa: S311  # a drill has no secrets
    number, at = 0, 0.0
    if traffic is Traffic.LONG_PREFILL:
        # After work that everybody has seen: the first request of all may take its time for other reasons.
        yield Request(0, 0.0, 256, 50)
        number, at = 1, USUAL_FIRST
    while True:
        for prompt, tokens, pause in _group(traffic, rng):
            seconds = LONG_CHUNK_SECONDS if traffic is Traffic.LONG_PREFILL else 0.0
            yield Request(number, at, prompt, tokens, seconds)
            number += 1
            at += pause
        if traffic is Traffic.IDLE:
            return


def _group(traffic: Traffic, rng: random.Random) -> list[tuple[int, int, float]]:
    """The next requests, with the seconds after each."""
    usual = (rng.randint(100, 1000), rng.randint(60, 240))
    if traffic is Traffic.FULL:
        return [(512, 200, FULL_GAP)]
    if traffic is Traffic.STEADY:
        return [(256, 30, STEADY_GAP)]
    if traffic is Traffic.BURSTY:
        many = [(rng.randint(100, 1000), rng.randint(60, 240), 0.0) for _ in range(rng.randint(3, 16))]
        return [*many[:-1], (*usual, rng.expovariate(1 / BURST_GAP))]
    if traffic is Traffic.IDLE:
        return [(256, 50, 0.1)] * 3
    if traffic is Traffic.HOURLY:
        return [(*usual, HOURLY_GAP)]
    if traffic is Traffic.LONG_PREFILL:
        return [(LONG_CHUNKS * CHUNK, 60, LONG_GAP)]
    return [(*usual, rng.expovariate(1 / BUSY_GAP))]
