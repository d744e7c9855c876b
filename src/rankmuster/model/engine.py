"""The engine plane: metrics pages of a serving engine, reduced to load and to what really moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.model.stamp import Stamp


@dataclass(frozen=True, slots=True)
class EngineStream:
    """One engine of a page (one data-parallel replica).

    `key`: the label that tells engines apart ("0"). `running`, `waiting`: requests now, None unknown.
    `steps`: counters that move with every step or token (vLLM generation_tokens, SGLang realtime_tokens).
    `ends`: counters that move only when a request ends (SGLang and TensorRT-LLM token totals): flat means nothing.
    `gauges`: values whose change is a sign of work (KV cache use, used tokens).
    `paused`: asleep or paused on purpose.
    """

    key: str
    running: float | None
    waiting: float | None
    steps: Mapping[str, float]
    ends: Mapping[str, float]
    gauges: Mapping[str, float]
    paused: bool = False


@dataclass(frozen=True, slots=True)
class EnginePage:
    """One scrape. `time` from the content where it has one, else from the file's name. `engine`: vllm, sglang, ..."""

    source: str
    time: Stamp | None
    engine: str
    streams: tuple[EngineStream, ...]
