"""Which paths an engine's traffic takes, and which planes see them: that decides what their silence means."""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.model.engine import EnginePage
from rankmuster.model.frameworklog import LogSpan, TrafficHint, TrafficPath

_OUTSIDE_EAGER_NCCL = {
    TrafficPath.CUSTOM_ALL_REDUCE,
    TrafficPath.CUDA_GRAPHS,
    TrafficPath.SYMMETRIC_MEMORY,
    TrafficPath.FLASHINFER,
    TrafficPath.NVSHMEM,
    TrafficPath.NIXL,
    TrafficPath.UCX,
    TrafficPath.MPI,
}
INVISIBLE_TO_FLIGHT = _OUTSIDE_EAGER_NCCL | {TrafficPath.PYNCCL}
"""Paths of which the Flight Recorder has no entry (facts on the recorder, section 7.5)."""

INVISIBLE_TO_RAS = _OUTSIDE_EAGER_NCCL | {TrafficPath.GLOO}
"""Paths whose operations NCCL RAS does not count."""

ENGINE_PATHS = {
    "vllm": (TrafficPath.PYNCCL, TrafficPath.CUSTOM_ALL_REDUCE, TrafficPath.CUDA_GRAPHS),
    "sglang": (TrafficPath.CUSTOM_ALL_REDUCE, TrafficPath.CUDA_GRAPHS),
    "tensorrt-llm": (TrafficPath.MPI, TrafficPath.CUSTOM_ALL_REDUCE, TrafficPath.CUDA_GRAPHS),
}
"""Where an engine's decode runs unless it was told otherwise (facts on the recorder, sections 7.1 to 7.3)."""


def paths(context: Context) -> tuple[TrafficPath, ...]:
    """Paths this engine uses: as its log says, else as its kind does by default."""
    hints = context.evidence.of(TrafficHint)
    off = {hint.path for hint in hints if hint.off}
    seen = [hint.path for hint in hints if not hint.off]
    engines = {page.engine for page in context.evidence.of(EnginePage)}
    engines |= {span.engine for span in context.evidence.of(LogSpan) if span.engine}
    for engine in sorted(engines):
        seen += [path for path in ENGINE_PATHS.get(engine, ()) if path not in off]
    return tuple(dict.fromkeys(seen))


def names(hidden: set[TrafficPath], used: tuple[TrafficPath, ...]) -> str:
    """The paths of `used` that are among `hidden`, as text."""
    return ", ".join(path.value for path in used if path in hidden)
