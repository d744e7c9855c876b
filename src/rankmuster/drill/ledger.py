"""What the engine's front end shows, written by the engine into a shared file: a page of numbers without a system call.

A hang leaves it as it was, and the front end goes on showing that, as vLLM's does.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

from rankmuster.drill.counts import WIDTH, Counts

_ROW = struct.Struct(f"<{WIDTH}d")
_TURN = struct.Struct("<q")
TRIES = 200
TRY_SECONDS = 0.0005
"""A writer that was stopped in the middle of a row (a microsecond long) is not waited for longer than a tenth of a
second."""


class Ledger:
    """The shared file: one writer, any readers. The turn is odd while a row is being written."""

    def __init__(self, path: Path) -> None:
        """Opens an existing ledger; raises OSError or ValueError when there is none."""
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._turn = 0

    @classmethod
    def create(cls, path: Path) -> Ledger:
        """A new one, all zeros."""
        path.write_bytes(bytes(_TURN.size + _ROW.size))
        return cls(path)

    def write(self, counts: Counts) -> None:
        """Shows `counts` from now on."""
        self._turn += 1
        _TURN.pack_into(self._map, 0, self._turn)
        _ROW.pack_into(self._map, _TURN.size, *counts.numbers())
        self._turn += 1
        _TURN.pack_into(self._map, 0, self._turn)

    def read(self) -> Counts:
        """What was written last."""
        row: tuple[float, ...] = ()
        for _ in range(TRIES):
            (turn,) = _TURN.unpack_from(self._map, 0)
            row = _ROW.unpack_from(self._map, _TURN.size)
            if not turn % 2 and _TURN.unpack_from(self._map, 0) == (turn,):
                break
            time.sleep(TRY_SECONDS)
        return Counts.of(row)

    def close(self) -> None:
        """Lets go of the memory."""
        self._map.close()
