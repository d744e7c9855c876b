"""What an engine counts of its work, with the buckets of vLLM: what stands on its metrics page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

ITERATION_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
INTER_TOKEN = (
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
)
FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
REQUEST = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0)


@dataclass(slots=True)
class Histogram:
    """`counts`: of each bucket alone, the last is above all bounds. `total`: sum of what was observed."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        """Takes `times` observations of `value`."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


@dataclass(slots=True)
class Counts:
    """`cache`: part of the KV cache in use, 0 to 1. `ended`: requests that came to their last token."""

    running: int = 0
    waiting: int = 0
    cache: float = 0.0
    prompt: int = 0
    generated: int = 0
    ended: int = 0
    iteration: Histogram = field(default_factory=lambda: Histogram(ITERATION_TOKENS))
    inter_token: Histogram = field(default_factory=lambda: Histogram(INTER_TOKEN))
    first_token: Histogram = field(default_factory=lambda: Histogram(FIRST_TOKEN))
    request: Histogram = field(default_factory=lambda: Histogram(REQUEST))

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        """All of them, in the order of `numbers`."""
        return self.iteration, self.inter_token, self.first_token, self.request

    def numbers(self) -> list[float]:
        """All that is known as a row of numbers, always of the same length."""
        row: list[float] = [self.running, self.waiting, self.cache, self.prompt, self.generated, self.ended]
        for one in self.histograms:
            row += [*one.counts, one.total]
        return row

    @classmethod
    def of(cls, row: Sequence[float]) -> Counts:
        """What `numbers` gave."""
        running, waiting, cache, prompt, generated, ended = row[:SINGLE]
        made = cls(int(running), int(waiting), cache, int(prompt), int(generated), int(ended))
        at = SINGLE
        for one in made.histograms:
            last = at + len(one.counts)
            one.counts, one.total = [int(value) for value in row[at:last]], row[last]
            at = last + 1
        return made

    def since(self, before: Counts) -> Counts:
        """As a server shows that began to count at `before`: gauges are what they are."""
        gauges = (0, 1, 2)
        pairs: Iterable[tuple[int, tuple[float, float]]] = enumerate(zip(self.numbers(), before.numbers(), strict=True))
        return Counts.of([now if at in gauges else now - then for at, (now, then) in pairs])


SINGLE = 6
"""Numbers before those of the histograms."""
WIDTH = len(Counts().numbers())
