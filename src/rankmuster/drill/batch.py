"""The scheduler of a drill's engine: requests wait, are admitted, read their prompts in chunks, and decode together.

What is counted and when follows vLLM: gauges with every step, tokens only with steps that produce one (a middle chunk
of a prompt does not), and nothing at all while a step is under way, so that a hang leaves the page as it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from rankmuster.drill.counts import Counts
from rankmuster.drill.traffic import CHUNK, Request


class Work(IntEnum):
    """What all ranks do together in one step."""

    DECODE = 1
    PREFILL = 2  # a part of one chunk


ROUND_TOKENS = 128
"""Prompt tokens that are read in one step: a chunk is some steps of the size of a decode step."""
CACHE_TOKENS = 400_000
"""Tokens that the KV cache holds: two of the longest prompts."""
MOST_WAITING = 64
"""Requests that may wait; further ones are turned away, as by a front end with a limit."""


@dataclass(slots=True)
class _Running:
    request: Request
    read: int = 0  # prompt tokens
    rounds: int = 0  # of this chunk
    chunk_from: float | None = None
    made: int = 0
    last: float = 0.0  # when its last token came

    @property
    def chunk(self) -> int:
        return min(CHUNK, self.request.prompt - self.read)

    @property
    def reads(self) -> bool:
        return self.read < self.request.prompt


@dataclass(frozen=True, slots=True)
class Came:
    """A token that a step brought. `number`: of the request. `made`: its tokens so far. `last`: no more will come."""

    number: int
    made: int
    last: bool


class Batch:
    """Times are seconds since serving began. One step at a time: `next`, the work, `done`.

    `came`: what the last step brought.
    """

    def __init__(self, requests: Iterator[Request], most_running: int) -> None:
        self.counts = Counts()
        self._coming = requests
        self._following: Request | None = next(requests, None)
        self._waiting: deque[Request] = deque()
        self._running: list[_Running] = []
        self._most = most_running
        self._decoded_last = True
        self.came: list[Came] = []

    def next(self, now: float) -> Work | None:
        """What to do now, None without a request. Chunks of prompts and steps of decoding take turns."""
        self._arrive(now)
        while self._waiting and len(self._running) < self._most:
            self._running.append(_Running(self._waiting.popleft()))
        reading = next((one for one in self._running if one.reads), None)
        decoding = any(not one.reads for one in self._running)
        if reading is not None and (reading.chunk_from is not None or self._decoded_last or not decoding):
            if reading.chunk_from is None:
                reading.chunk_from, reading.rounds = now, 0
            self._decoded_last = False
            return Work.PREFILL
        self._decoded_last = True
        return Work.DECODE if decoding else None

    def wait(self, now: float) -> float | None:
        """Seconds until the next request comes; None when there is none any more."""
        return max(self._following.at - now, 0.0) if self._following is not None else None

    def done(self, work: Work, now: float) -> bool:
        """The step has ended on every rank. Whether anything is new on the page."""
        self.came = []
        if work is Work.PREFILL:
            return self._read(now)
        ended = []
        decoding = [one for one in self._running if not one.reads]
        for one in decoding:
            one.made += 1
            self.counts.inter_token.observe(now - one.last)
            one.last = now
            if one.made >= one.request.tokens:
                ended.append(one)
            self.came.append(Came(one.request.number, one.made, one.made >= one.request.tokens))
        self._count(len(decoding), 0)
        for one in ended:
            self._end(one, now)
        self._gauges()
        return True

    def _end(self, one: _Running, now: float) -> None:
        self._running.remove(one)
        self.counts.ended += 1
        self.counts.request.observe(now - one.request.at)

    def _arrive(self, now: float) -> None:
        while self._following is not None and self._following.at <= now:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(self._following)
            self._following = next(self._coming, None)

    def _read(self, now: float) -> bool:
        """One round of the chunk that is being read; its last one ends the chunk."""
        one = next(one for one in self._running if one.reads)
        one.rounds += 1
        begun = one.chunk_from if one.chunk_from is not None else now
        if one.rounds * ROUND_TOKENS < one.chunk or now - begun < one.request.chunk_seconds:
            return False
        one.read += one.chunk
        one.chunk_from = None
        if not one.reads:  # the last chunk's step brings the first token
            one.made, one.last = 1, now
            self.counts.first_token.observe(now - one.request.at)
            self.counts.prompt += one.request.prompt
            self._count(1, one.request.prompt)
            self.came.append(Came(one.request.number, 1, one.request.tokens <= 1))
            if one.request.tokens <= 1:
                self._end(one, now)
        self._gauges()
        return True

    def _count(self, generated: int, prompt: int) -> None:
        self.counts.generated += generated
        self.counts.iteration.observe(generated + prompt)

    def _gauges(self) -> None:
        self.counts.running, self.counts.waiting = len(self._running), len(self._waiting)
        self.counts.cache = sum(one.read + one.made for one in self._running) / CACHE_TOKENS
