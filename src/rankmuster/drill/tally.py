"""What a job's processes tell one another while it runs: a few numbers in a shared file, without a call to the kernel.

Each number has one writer and is an aligned 64-bit word, so that a reader never sees half of one. Telling must cost
nothing, since the job's step time is what the overhead benchmark measures.
"""

from __future__ import annotations

import mmap
from enum import IntEnum
from pathlib import Path
from types import TracebackType

WORD = 8
"""Bytes of a number."""
HEAD = 16
"""Words before the ranks' own states."""


class RankState(IntEnum):
    """How far a rank has come."""

    NOT_THERE = 0
    LOADED = 1  # torch is imported; the process group is next
    JOINED = 2  # the process group exists
    SERVING = 3  # the first steps are done


class Tally:
    """The shared file. Times are unix nanoseconds, 0 for "not yet"."""

    _RUNNING, _TOKENS, _STEPS, _ARMED, _FAULT_AT, _REST_FROM = range(6)

    def __init__(self, path: Path) -> None:
        """Opens an existing tally; raises OSError or ValueError when there is none."""
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._words = memoryview(self._map).cast("q")

    @classmethod
    def create(cls, path: Path, ranks: int) -> Tally:
        """A new one, all zeros."""
        path.write_bytes(bytes(WORD * (HEAD + ranks)))
        return cls(path)

    def close(self) -> None:
        """Lets go of the memory; nothing may be read or written after."""
        self._words.release()
        self._map.close()

    def __enter__(self) -> Tally:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def move(self, *, steps: int, tokens: int) -> None:
        """Steps and tokens finished so far; rank 0 alone."""
        self._words[self._STEPS] = steps
        self._words[self._TOKENS] = tokens

    @property
    def steps(self) -> int:
        """Steps that are finished on rank 0, and hence were entered by every rank."""
        return self._words[self._STEPS]

    @property
    def tokens(self) -> int:
        """Tokens generated."""
        return self._words[self._TOKENS]

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return self._words[self._RUNNING]

    @running.setter
    def running(self, count: int) -> None:
        self._words[self._RUNNING] = count

    @property
    def armed(self) -> bool:
        """Whether the fault may happen now; written by the parent alone."""
        return self._words[self._ARMED] != 0

    @armed.setter
    def armed(self, wanted: bool) -> None:
        self._words[self._ARMED] = int(wanted)

    @property
    def fault_at(self) -> int:
        """When the fault was made, by whoever made it."""
        return self._words[self._FAULT_AT]

    @fault_at.setter
    def fault_at(self, nanoseconds: int) -> None:
        self._words[self._FAULT_AT] = nanoseconds

    @property
    def rest_from(self) -> int:
        """The step before which every rank rests, since there is no request; 0: work goes on. Rank 0 alone writes."""
        return self._words[self._REST_FROM]

    @rest_from.setter
    def rest_from(self, step: int) -> None:
        self._words[self._REST_FROM] = step

    def state(self, rank: int) -> RankState:
        """How far `rank` has come."""
        return RankState(self._words[HEAD + rank])

    def reach(self, rank: int, state: RankState) -> None:
        """`rank` has come so far; itself alone."""
        self._words[HEAD + rank] = state
