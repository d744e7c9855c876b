"""What clients do in the controls of a drill: a few requests and then none, bursts, one now and then, long prompts."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.drill.incident_load import PROMPT, Attempt, How, Load, ask

FEW = 3
"""Requests before an idle time: work that the watch has seen."""
BURST, BURST_PAUSE = 8, 10.0
"""Requests at once, and seconds until the next ones."""
RARE_PAUSE = 20.0
"""Between two single requests, seconds: longer than a stop may take to be told."""
TOKENS = 30
LONG_SECONDS = 20.0
"""That a long prompt is to take: longer than a stop may take to be told."""
LONG_PAUSE = 8.0
"""Between two of them, seconds: a control ends without waiting for another one."""
TRIED_WORDS = 20_480
"""Of the prompt from which the engine's speed is known: ten chunks of its prefill."""
MOST_WORDS = 400_000
"""Of a prompt: what the engine's cache holds, and a body that its server takes."""


class Clients(str, Enum):
    """What they do."""

    BUSY = "busy"  # ask without a pause
    FEW = "few"  # a few requests, then none
    BURSTS = "bursts"
    RARE = "rare"
    LONG = "long"  # one at a time, whose prompt takes longer than a stop may take to be told


@dataclass(frozen=True, slots=True)
class Came:
    """What came of the requests of a control. `longest`: seconds of the slowest answer."""

    asked: int
    lost: int
    longest: float


class ControlLoad:
    """To be used in a `with`: nobody asks any more after the block. `count`: of clients, where they are busy."""

    def __init__(self, kind: Clients, address: tuple[str, int], folder: Path, *, count: int, seed: int) -> None:
        self._address, self._end = address, threading.Event()
        self._load = Load(address, count, folder / "attempts.jsonl", seed) if kind is Clients.BUSY else None
        self._attempts: list[Attempt] = []
        ways: dict[Clients, Callable[[], None]] = {
            Clients.FEW: self._few,
            Clients.BURSTS: self._bursts,
            Clients.RARE: self._rare,
            Clients.LONG: self._long,
        }
        self._thread = threading.Thread(target=ways[kind], daemon=True) if kind in ways else None

    def __enter__(self) -> ControlLoad:
        if self._load is not None:
            self._load.start()
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._load is not None:
            self._load.stop(0.0)

    def stop(self, seconds: float) -> Came:
        """No new requests; waits for what is on its way."""
        self._end.set()
        if self._load is not None:
            self._load.stop(seconds)
        if self._thread is not None:
            self._thread.join(seconds)
        attempts = self._load.attempts if self._load is not None else tuple(self._attempts)
        longest = max((one.ended_at - one.sent_at for one in attempts), default=0.0)
        return Came(len(attempts), sum(one.how is How.LOST for one in attempts), longest)

    def _ask(self, name: str, prompt: str = PROMPT, tokens: int = TOKENS) -> Attempt:
        attempt = ask(self._address, name, tokens, stream=False, prompt=prompt)
        self._attempts.append(attempt)
        return attempt

    def _few(self) -> None:
        for number in range(FEW):
            self._ask(f"few-{number}")

    def _bursts(self) -> None:
        for number in itertools.count():
            threads = [
                threading.Thread(target=self._ask, args=(f"burst-{number}-{one}",), daemon=True) for one in range(BURST)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if self._end.wait(BURST_PAUSE):
                return

    def _rare(self) -> None:
        for number in itertools.count():
            self._ask(f"rare-{number}")
            if self._end.wait(RARE_PAUSE):
                return

    def _long(self) -> None:
        self._few()
        begun = time.monotonic()
        self._ask("long-tried", "word " * TRIED_WORDS, 1)
        took = max(time.monotonic() - begun, 0.01)
        words = min(int(TRIED_WORDS * LONG_SECONDS / took), MOST_WORDS)
        for number in itertools.count():
            self._ask(f"long-{number}", "w " * words, 1)
            if self._end.wait(LONG_PAUSE):
                return
