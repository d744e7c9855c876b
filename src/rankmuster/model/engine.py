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
    `elsewhere`: of the waiting, those that wait for another instance or for what is no place in the batch: a KV cache
    that is to come, a grammar. The engine does nothing for them until it is there.
    """

    key: str
    running: float | None
    waiting: float | None
    steps: Mapping[str, float]
    ends: Mapping[str, float]
    gauges: Mapping[str, float]
    paused: bool = False
    elsewhere: float = 0.0

    @property
    def load(self) -> float | None:
        """Requests that run or wait, None where the page does not say."""
        if self.paused:
            return 0.0
        return None if self.running is None and self.waiting is None else (self.running or 0.0) + (self.waiting or 0.0)

    @property
    def own_load(self) -> float | None:
        """The same without those for which it has nothing to do yet."""
        load = self.load
        return load if not load else max(load - self.elsewhere, self.running or 0.0)


@dataclass(frozen=True, slots=True)
class EnginePage:
    """One scrape. `time` from the content where it has one, else from the file's name. `engine`: vllm, sglang, ..."""

    source: str
    time: Stamp | None
    engine: str
    streams: tuple[EngineStream, ...]
