"""What the newest pages of every engine show: its load, and what it did since the page before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.diagnose.engine_rates import follows_arrivals
from rankmuster.diagnose.engine_series import changed, grew
from rankmuster.model.engine import EngineStream
from rankmuster.watch.progress.window import Loaded

Name = tuple[str, str, str]
"""Server, engine and the key of its stream."""


@dataclass(frozen=True, slots=True)
class Interval:
    """One stream between its two newest pages.

    `at`: monotonic seconds of the newer one. `running`: requests, the mean of both pages. `prompts`: prompt tokens that
    were counted, 0 where the page does not say. `tokens`: by how much the
    counter of produced tokens rose, else that of steps; None where the page has neither, or it fell. `advanced`:
    whether any counter rose. `loaded`: whether the newer page shows a request. `worked`: whether any of its counters
    is above zero, so that this server has worked since it was started. `fell`: whether one fell. `stirred`: whether a
    gauge changed. `cache`: share of the KV cache in use, the mean of both pages; 0 where no page says it.
    """

    name: Name
    at: float
    seconds: float
    running: float
    tokens: float | None
    advanced: bool
    loaded: bool
    worked: bool
    fell: bool
    prompts: float = 0.0
    stirred: bool = False
    cache: float = 0.0


CACHE = ("usage", "utilization")
"""Parts of the names of gauges of the share of the KV cache in use (vLLM, LMDeploy, SGLang's tokens; TensorRT-LLM)."""


def load_of(stream: EngineStream) -> float:
    """Requests that run or wait for this engine."""
    return stream.own_load or 0.0


def newest(servers: Mapping[str, list[Loaded]]) -> tuple[Interval, ...]:
    """The last interval of every stream; one page alone makes an interval of no length."""
    found = []
    for server, pages in servers.items():
        last = pages[-1]
        before = next((one for one in reversed(pages[:-1]) if one.page.engine == last.page.engine), None)
        earlier = {stream.key: stream for stream in before.page.streams} if before is not None else {}
        for stream in last.page.streams:
            found.append(
                _interval((server, last.page.engine, stream.key), before, earlier.get(stream.key), last, stream)
            )
    return tuple(found)


def _interval(
    name: Name, before: Loaded | None, earlier: EngineStream | None, last: Loaded, stream: EngineStream
) -> Interval:
    worked = any(value > 0 for counters in (stream.steps, stream.ends) for value in counters.values())
    loaded = load_of(stream) > 0
    if before is None or earlier is None:
        return Interval(name, last.at, 0.0, stream.running or 0.0, None, False, loaded, worked, False)
    running = ((earlier.running or 0.0) + (stream.running or 0.0)) / 2
    risen = {key: value - earlier.steps[key] for key, value in stream.steps.items() if key in earlier.steps}
    fell = any(
        value < old[key]
        for old, new in ((earlier.steps, stream.steps), (earlier.ends, stream.ends))
        for key, value in new.items()
        if key in old
    )
    tokens = None if fell else _produced(risen)
    prompts = max((v for key, v in risen.items() if follows_arrivals(key)), default=0.0)
    advanced = grew(earlier, stream)
    stirred = changed(earlier.gauges, stream.gauges)
    seconds = last.at - before.at
    cache = (_cache(earlier) + _cache(stream)) / 2
    return Interval(name, last.at, seconds, running, tokens, advanced, loaded, worked, fell, prompts, stirred, cache)


def _cache(stream: EngineStream) -> float:
    shares = (value for name, value in stream.gauges.items() if any(part in name for part in CACHE))
    return max((share for share in shares if share <= 1.0), default=0.0)


def _produced(risen: Mapping[str, float]) -> float | None:
    """Tokens that were generated, where a counter says so; else the liveliest counter that does not follow arrivals."""
    for part in ("generation_tokens", "decode"):
        for key, value in risen.items():
            if part in key and "tokens" in key:
                return value
    return max((value for key, value in risen.items() if not follows_arrivals(key)), default=None)
