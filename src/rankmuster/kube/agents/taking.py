"""One collection at a time for the same pods, as a child process with an end; who wishes meanwhile gets the same one.

A child, since what it reads may be huge or hang, and this process must neither grow nor end: in a pod its restart would
count as the pod's, and a LeaderWorkerSet would rebuild the group for it.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rankmuster.adapters.admit_record import OWN
from rankmuster.adapters.child import run_child
from rankmuster.adapters.into_file import ROOT, last_words
from rankmuster.collect.bundle.digest import digest_of
from rankmuster.collect.deadline import Clock

CLOSE_SECONDS = 4.0
"""After the deadline that the collection itself has: it closes its bundle, and a slow start comes on top."""

GRACE = 3.0
"""Between "finish with what there is" and SIGKILL: closing and packing takes 1.2 s or 6 % of its deadline."""

MOST_AT_ONCE = 4
"""Collections for different pods: each takes a processor for seconds."""


@dataclass(frozen=True, slots=True)
class Taken:
    """`bundle`: an archive that is whole; None where there is none. `partial`: something is missing in it. `note`:
    what, or why there is none."""

    bundle: Path | None
    partial: bool
    note: str = ""
    sha256: str = ""
    size: int = 0


class Busy(Exception):
    """Too many collections run already."""


class _One:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.taken: Taken | None = None
        self.readers = 0


class Taker:
    """`folder`: where bundles are made; emptied of what an earlier life left half done."""

    def __init__(self, folder: Path, clock: Clock, *, most: int = MOST_AT_ONCE) -> None:
        self._folder = folder
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._running: dict[Hashable, _One] = {}
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)

    @property
    def running(self) -> int:
        """Collections under way."""
        with self._lock:
            return len(self._running)

    def take(
        self, key: Hashable, options: Sequence[str], seconds: float, keep: Callable[[Taken], object] | None = None
    ) -> tuple[Taken, IO[bytes] | None]:
        """The bundle, with an open handle on it; it is gone from the disk once all have theirs.

        `key`: who wishes the same gets the same. `keep`: called with a new bundle before anybody gets it. Raises Busy.
        """
        with self._lock:
            one = self._running.get(key)
            mine = one is None
            if one is None:
                if len(self._running) >= self._most:
                    raise Busy(f"{len(self._running)} collections run already; ask again in some seconds")
                one = self._running[key] = _One()
            one.readers += 1
        if mine:
            taken = Taken(None, True, "it broke off")
            try:
                taken = self._run(options, seconds)
                if keep is not None and taken.bundle is not None:
                    keep(taken)
            finally:
                with self._lock:
                    one.taken = taken
                    del self._running[key]
                one.done.set()
        else:
            one.done.wait(seconds + CLOSE_SECONDS + GRACE + 10.0)
        found = one.taken or Taken(None, True, "the collection that was joined has not ended in time")
        handle = None
        with contextlib.suppress(OSError):
            handle = open(found.bundle, "rb") if found.bundle is not None else None  # noqa: SIM115 - the caller's
        with self._lock:
            one.readers -= 1
            last = one.readers == 0 and one.taken is not None
        if last and found.bundle is not None:
            with contextlib.suppress(OSError):
                found.bundle.unlink()
        return found, handle

    def _run(self, options: Sequence[str], seconds: float) -> Taken:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            return Taken(None, True, f"{self._folder} cannot be made ({error.strerror})")
        output = self._folder / f"{secrets.token_hex(8)}.tar.zst"
        ran = run_child(
            [*OWN, "collect", *options, "--deadline", f"{seconds:.2f}", "--output", str(output)],
            seconds=seconds + CLOSE_SECONDS,
            grace=GRACE,
            clock=self._clock,
            cwd=ROOT,
            step_back=False,  # it does so itself
        )
        words = ran.problem or last_words(ran)
        for left in self._folder.glob(f"{output.name}.*.part"):
            shutil.rmtree(left, ignore_errors=True)
        try:
            with open(output, "rb") as file:
                size, digest = digest_of(file)
        except OSError:
            return Taken(None, True, f"there is no bundle: {words}")
        partial = ran.status != 0 or ran.late
        return Taken(output, partial, words if partial else "", digest, size)
