"""Pages that say something of a load: what stood still before a request came stood still for want of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rankmuster.diagnose.engine_series import changed, grew
from rankmuster.diagnose.engine_state import SECONDARY
from rankmuster.model.engine import EnginePage, EngineStream
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
    gauge changed.
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


def load_of(stream: EngineStream) -> float:
    """Requests that run or wait."""
    return 0.0 if stream.paused else (stream.running or 0.0) + (stream.waiting or 0.0)


def _series(pages: list[Loaded]) -> dict[tuple[str, str], list[tuple[int, EngineStream]]]:
    found: dict[tuple[str, str], list[tuple[int, EngineStream]]] = {}
    for index, one in enumerate(pages):
        for stream in one.page.streams:
            found.setdefault((one.page.engine, stream.key), []).append((index, stream))
    return found


def since_load(servers: Mapping[str, list[Loaded]]) -> Iterator[tuple[float, EnginePage]]:
    """All pages; of a stream that has not advanced since its load came, only those since then.

    `diagnose` measures how long counters stood still; on a window that begins in idleness that would be the idle time.
    """
    for pages in servers.values():
        first: dict[tuple[str, str], int] = {}
        for name, points in _series(pages).items():
            start = _start(points)
            if start:
                first[name] = start
        for index, one in enumerate(pages):
            streams = one.page.streams
            if first:
                streams = tuple(s for s in streams if index >= first.get((one.page.engine, s.key), 0))
            if streams:
                yield one.at, one.page if streams is one.page.streams else replace(one.page, streams=streams)


def _start(points: list[tuple[int, EngineStream]]) -> int:
    """Index of the page from which flat counters count; 0 for all pages.

    That is the page with which the load came that nothing has served since, or the one up to which gauges changed
    while no counter did: a prefill that was at work until then.
    """
    position = len(points) - 1
    if not load_of(points[position][1]):
        return 0
    while position > 0 and load_of(points[position - 1][1]):
        before, after = points[position - 1][1], points[position][1]
        if grew(before, after):
            return 0
        if changed(before.gauges, after.gauges):
            return points[position][0]
        position -= 1
    if position > 0 and grew(points[position - 1][1], points[position][1]):
        # It advanced between the last page without load and the first with one: both count.
        return points[position - 1][0]
    return points[position][0]


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
    prompts = max((v for key, v in risen.items() if any(part in key for part in SECONDARY)), default=0.0)
    advanced = grew(earlier, stream)
    stirred = changed(earlier.gauges, stream.gauges)
    seconds = last.at - before.at
    return Interval(name, last.at, seconds, running, tokens, advanced, loaded, worked, fell, prompts, stirred)


def _produced(risen: Mapping[str, float]) -> float | None:
    """Tokens that were generated, where a counter says so; else the liveliest counter that does not follow arrivals."""
    for part in ("generation_tokens", "decode"):
        for key, value in risen.items():
            if part in key and "tokens" in key:
                return value
    return max((value for key, value in risen.items() if not any(part in key for part in SECONDARY)), default=None)
