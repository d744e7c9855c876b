"""The node's fingerprint, taken in a child and kept: reading it starts NVML, which on a fresh node takes seconds."""

from __future__ import annotations

import threading

from rankmuster.adapters.admit_record import OWN
from rankmuster.adapters.child import run_child
from rankmuster.adapters.into_file import ROOT, last_words
from rankmuster.collect.deadline import Clock
from rankmuster.kube.agents.server import Answer, trouble

TAKE_SECONDS = 45.0
KEEP_SECONDS = 3600.0
"""After which it is taken anew though nobody said that anything has changed."""


class FingerprintNow:
    """For any number of threads; one takes it, the others wait for that."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: tuple[float, bytes] | None = None

    def answer(self, *, again: bool) -> Answer:
        """As JSON (`rankmuster fingerprint --format json`)."""
        asked = self._clock()
        with self._lock:
            kept = self._kept
            if kept is None or self._clock() - kept[0] > KEEP_SECONDS or (again and kept[0] < asked):
                ran = run_child(
                    [*OWN, "fingerprint", "--format", "json", "--deadline", f"{TAKE_SECONDS - 10:.0f}"],
                    seconds=TAKE_SECONDS,
                    grace=1.0,
                    clock=self._clock,
                    cwd=ROOT,
                )
                begin, end = ran.output.find(b"{"), ran.output.rfind(b"}")
                if ran.status not in (0, 2) or begin < 0 or ran.dropped:
                    return trouble(503, f"the fingerprint could not be taken: {ran.problem or last_words(ran)}")
                kept = self._kept = (self._clock(), ran.output[begin : end + 1] + b"\n")
            return Answer(200, kept[1])
