"""How the engine tells its ranks what to do next, past any collective: a ring in a shared file, as vLLM has one.

Who waits for an order looks often at first and then rests between looks: at rest no processor and no GPU spins.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path

WORD = 8
SLOTS = 64
"""Orders that may be on their way; ranks are never more than one step apart, since every step is a collective."""
QUICK_SECONDS, QUICK_POLL, REST_POLL = 0.05, 0.0002, 0.005
"""How long a rank that waits looks every fifth of a millisecond, and how often after that."""


class Orders:
    """One writer, rank 0; each of the others keeps its own place."""

    def __init__(self, path: Path) -> None:
        """Opens an existing ring; raises OSError or ValueError when there is none."""
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._words = memoryview(self._map).cast("q")

    @classmethod
    def create(cls, path: Path) -> Orders:
        """A new one, without an order."""
        path.write_bytes(bytes(WORD * (1 + SLOTS)))
        return cls(path)

    def give(self, number: int, order: int) -> None:
        """Order `number`, from 0 on without a gap."""
        self._words[1 + number % SLOTS] = order
        self._words[0] = number + 1

    def wait(self, number: int) -> int:
        """Waits for order `number`, without an end."""
        begun = time.monotonic()
        while self._words[0] <= number:
            time.sleep(QUICK_POLL if time.monotonic() - begun < QUICK_SECONDS else REST_POLL)
        return self._words[1 + number % SLOTS]

    def close(self) -> None:
        """Lets go of the memory."""
        self._words.release()
        self._map.close()
