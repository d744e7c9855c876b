"""The GPUs while the benchmark runs: PCIe at its best, and what holds clocks back under load.

A few short looks are spread over the run instead of one long one, since NVML tells the state of links once per look and
an idle GPU's says nothing. The first comes late enough that torch is loaded and the GPUs have left their idle clocks.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rankmuster.admission.facts import UnderLoad
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.nvml_session import NvmlSession

LOOKS_AFTER = (6.0, 14.0, 30.0)
"""Seconds after the benchmark's start at which a look begins. Importing torch takes 3 to 20 s, measuring the default
profile 10 to 60 s; later looks find GPUs at work if the first did not."""

LOOK_SECONDS = 4.0
"""Of one look: NVML starts in 1 to 3 s, then a GPU's facts and a few samples take less than one."""

INTERVAL = 0.5  # seconds between two samples within a look

BUSY_PERCENT = 50.0
"""Utilisation from which a sample counts as under load: NCCL's kernels keep it at 100, an idle GPU is at 0."""

_GENERATION = "PCI / GPU Link Info / PCIe Generation / Current"
_WIDTH = "PCI / GPU Link Info / Link Width / Current"
_NUMBER = re.compile(r"\d{1,4}")


@dataclass(slots=True)
class _Gpu:
    generation: int | None = None
    width: int | None = None
    reasons: int | None = None
    samples: int = 0


class LoadWatch:
    """Looks from a thread of its own between `begin` and `end`. Never raises; what NVML does not say stays None."""

    def __init__(self, looks: tuple[float, ...] = LOOKS_AFTER) -> None:
        self._looks = looks
        self._gpus: dict[int, _Gpu] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Around one start of the benchmark."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """Starts looking."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(self._over,), name="admission-load", daemon=True)
        with contextlib.suppress(RuntimeError):  # the limit on threads: then there is nothing under load
            self._thread.start()

    def end(self) -> None:
        """Stops looking; a look that hangs is left behind."""
        self._over.set()
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(LOOK_SECONDS)

    def seen(self) -> Mapping[int, UnderLoad]:
        """By GPU index; only those of which anything was seen."""
        return {
            index: UnderLoad(gpu.generation, gpu.width, gpu.reasons, (), gpu.samples)
            for index, gpu in sorted(self._gpus.items())
        }

    def _work(self, over: threading.Event) -> None:
        passed = 0.0
        for at in self._looks:
            if over.wait(max(at - passed, 0.0)):
                return
            passed = at
            began = Deadline.after(LOOK_SECONDS)
            try:
                session = NvmlSession(seconds=LOOK_SECONDS + 1.0, interval=INTERVAL)
            except OSError:
                return
            try:
                while not began.passed and not session.ended and not over.is_set():
                    for line in session.lines(began.within(INTERVAL)):
                        self.take(line)
            finally:
                session.close()
            passed += LOOK_SECONDS - began.remaining()

    def take(self, line: Mapping[str, Any]) -> None:
        """One line of the child that asks NVML."""
        index, kind = line.get("gpu"), line.get("kind")
        if not isinstance(index, int):
            return
        gpu = self._gpus.setdefault(index, _Gpu())
        if kind == "gpu" and isinstance(line.get("facts"), Mapping):
            gpu.generation = _most(gpu.generation, line["facts"].get(_GENERATION))
            gpu.width = _most(gpu.width, line["facts"].get(_WIDTH))
        elif kind == "sample":
            busy, reasons = line.get("sm_util_percent"), line.get("clock_event_reasons")
            if isinstance(busy, (int, float)) and busy >= BUSY_PERCENT:
                gpu.samples += 1
                if isinstance(reasons, int):
                    gpu.reasons = (gpu.reasons or 0) | reasons


def _most(known: int | None, said: object) -> int | None:
    match = _NUMBER.match(str(said)) if said is not None else None
    if match is None:
        return known
    return max(known or 0, int(match.group()))
