"""How operations are timed: by CUDA events on the stream, or by the wall clock where there is no GPU.

Two measurements are made of each size, since one cannot serve for both. The loop: n operations back to back between
two marks, as nccl-tests times them; its mean is the time that bandwidths are made of. The iterations: each between
marks of its own, which cost a few microseconds between operations; they show the spread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rankmuster.bench.builtin import lazy

Call = Callable[[], None]

GRAPH_REPLAYS = 2
"""Replays of the graph of n operations in a timed loop: the first's launch is hidden behind the barrier."""


class Timer(Protocol):
    """Every time is this rank's, in microseconds of one operation."""

    def loop(self, calls: Sequence[Call], iterations: int, graph: bool) -> float: ...

    def each(self, calls: Sequence[Call], iterations: int, graph: bool) -> list[float]: ...

    def once(self, call: Call, graph: bool) -> None: ...

    def settle(self) -> None: ...


class CudaTimer:
    """`stream`: the one that the operations are enqueued on. The barrier makes all ranks' first marks coincide."""

    def __init__(self, stream: Any, barrier: Call) -> None:
        self._stream, self._barrier = stream, barrier
        self._single: tuple[Call, Any] | None = None

    def loop(self, calls: Sequence[Call], iterations: int, graph: bool) -> float:
        begin, end = self._event(), self._event()
        if graph:
            captured = self._captured([calls[number % len(calls)] for number in range(iterations)])
            captured.replay()  # the first launch uploads it
            self.settle()
            self._barrier()
            begin.record(self._stream)
            for _ in range(GRAPH_REPLAYS):
                captured.replay()
            iterations *= GRAPH_REPLAYS
        else:
            self._barrier()
            begin.record(self._stream)
            for number in range(iterations):
                calls[number % len(calls)]()
        end.record(self._stream)
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1000 / iterations

    def each(self, calls: Sequence[Call], iterations: int, graph: bool) -> list[float]:
        marks = [(self._event(), self._event()) for _ in range(iterations)]
        replays = [self._captured([call]).replay for call in calls[:iterations]] if graph else list(calls)
        self.settle()
        self._barrier()
        for number, (begin, end) in enumerate(marks):
            begin.record(self._stream)
            replays[number % len(replays)]()
            end.record(self._stream)
        self.settle()
        return [float(begin.elapsed_time(end)) * 1000 for begin, end in marks]

    def once(self, call: Call, graph: bool) -> None:
        if graph:
            self._captured([call]).replay()
        else:
            call()
        self.settle()

    def settle(self) -> None:
        self._stream.synchronize()

    def _event(self) -> Any:
        torch = lazy.torch()

        return torch.cuda.Event(enable_timing=True)

    def _captured(self, calls: Sequence[Call]) -> Any:
        """A graph of the calls. Other threads of the process (a watchdog) may call CUDA meanwhile."""
        torch = lazy.torch()

        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for call in calls:
                call()
        finally:
            graph.capture_end()
        return graph


class WallTimer:
    """For gloo, whose calls return when they are done."""

    def __init__(self, barrier: Call) -> None:
        self._barrier = barrier

    def loop(self, calls: Sequence[Call], iterations: int, graph: bool) -> float:  # noqa: ARG002  # there are no graphs
        self._barrier()
        begin = time.perf_counter()
        for number in range(iterations):
            calls[number % len(calls)]()
        return (time.perf_counter() - begin) * 1e6 / iterations

    def each(self, calls: Sequence[Call], iterations: int, graph: bool) -> list[float]:  # noqa: ARG002
        self._barrier()
        found = []
        for number in range(iterations):
            begin = time.perf_counter()
            calls[number % len(calls)]()
            found.append((time.perf_counter() - begin) * 1e6)
        return found

    def once(self, call: Call, graph: bool) -> None:  # noqa: ARG002
        call()

    def settle(self) -> None:
        pass
