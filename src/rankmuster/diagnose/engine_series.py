"""Metrics pages as series: one per server and engine, cut where its counters were reset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from rankmuster.diagnose.context import Context
from rankmuster.model.engine import EnginePage, EngineStream

TIME = re.compile(r"\d{4}-?\d\d-?\d\d[T_ -]?\d\d[:_-]?\d\d([:_-]?\d\d)?|\d{9,}(\.\d+)?")
"""Stamps in a page's path; what is left of it tells servers apart."""

NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Point:
    """One engine on one page."""

    time: float
    stream: EngineStream
    source: str


@dataclass(frozen=True, slots=True)
class Series:
    """One engine of one server, in order of time. `origin`: what tells its server from others, empty for the only one.

    `resets`: indexes of points before which a counter fell: a restart, and no sign of work or of its lack.
    """

    engine: str
    origin: str
    points: tuple[Point, ...]
    resets: tuple[int, ...]

    @property
    def start(self) -> int:
        """Index of the first point since the last reset."""
        return self.resets[-1] if self.resets else 0


def series(context: Context) -> list[Series]:
    """All series of pages that carry a time."""
    timed = [(time, page) for page in context.pages if (time := context.time(page.time)) is not None]
    origins = _origins([page for _, page in timed])
    found: dict[tuple[str, str, str], list[Point]] = {}
    for time, page in timed:
        for stream in page.streams:
            key = (origins[page.source], page.engine, stream.key)
            found.setdefault(key, []).append(Point(time, stream, page.source))
    several = len(set(origins.values())) > 1
    return [
        Series(engine, origin if several else "", tuple(points), _resets(points))
        for (origin, engine, _), points in found.items()
    ]


def _origins(pages: list[EnginePage]) -> dict[str, str]:
    """Per page what its path says of the server: all but the time, and but a running number."""
    sources = {page.source for page in pages}
    origins = {source: TIME.sub("", source) for source in sources}
    if len(set(origins.values())) * 2 > len(sources):
        # Hardly two pages share a name: the numbers in it count pages.
        origins = {source: NUMBER.sub("", source) for source in sources}
    if len(set(origins.values())) * 2 > len(sources):
        return dict.fromkeys(sources, "")
    return origins


def grew(before: EngineStream, after: EngineStream) -> bool:
    """Whether a counter rose from one page to the next, and none fell."""
    return not fell(before, after) and any(
        name in earlier and value > earlier[name]
        for earlier, later in ((before.steps, after.steps), (before.ends, after.ends))
        for name, value in later.items()
    )


def fell(before: EngineStream, after: EngineStream) -> bool:
    """Whether a counter is lower than on the page before: the server was restarted, or it is another one."""
    return any(
        name in earlier and value < earlier[name]
        for earlier, later in ((before.steps, after.steps), (before.ends, after.ends))
        for name, value in later.items()
    )


def changed(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether a gauge has another value."""
    return any(name in before and value != before[name] for name, value in after.items())


def _resets(points: list[Point]) -> tuple[int, ...]:
    pairs = enumerate(pairwise(points), start=1)
    return tuple(index for index, (one, other) in pairs if fell(one.stream, other.stream))
