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

ASKED = re.compile(r"@\d{9,}\.\d+$")
"""How a watch names a page: its server, and when that was asked. Nothing of it needs to be guessed."""

SAME_MOMENT = 0.5
"""Seconds within which nobody asks one server twice: the quickest scrapers captured wait 1.2 s. Pages that are closer
are of as many servers, whatever their names have in common."""


@dataclass(frozen=True, slots=True)
class Point:
    """One engine on one page."""

    time: float
    stream: EngineStream
    source: str


@dataclass(frozen=True, slots=True)
class Series:
    """One engine of one server, in order of time. `origin`: what tells its server from others, empty for the only one.

    `key`: what tells it from other engines of its kind, empty for the only one on every page. `identity`: server,
    engine and key whether or not there are others.
    `resets`: indexes of points before which a counter fell: a restart, and no sign of work or of its lack.
    """

    engine: str
    origin: str
    points: tuple[Point, ...]
    resets: tuple[int, ...]
    key: str = ""
    identity: tuple[str, str, str] = ("", "", "")

    @property
    def name(self) -> str:
        """`vllm`, `vllm engine 1 (10.0.0.1:8000)`: as much as tells it from the others."""
        told = f"{self.engine} engine {self.key}" if self.key else self.engine
        return f"{told} ({self.origin})" if self.origin else told

    @property
    def start(self) -> int:
        """Index of the first point since the last reset."""
        return self.resets[-1] if self.resets else 0


def series(context: Context) -> list[Series]:
    """All series of pages that carry a time."""
    timed = [(time, page) for page in context.pages if (time := context.time(page.time)) is not None]
    origins = _origins(timed)
    found: dict[tuple[str, str, str], list[Point]] = {}
    for time, page in timed:
        for stream in page.streams:
            key = (origins[page.source], page.engine, stream.key)
            found.setdefault(key, []).append(Point(time, stream, page.source))
    several = len(set(origins.values())) > 1
    keys = {key for _, _, key in found}
    return [
        Series(
            identity[1],
            identity[0] if several else "",
            tuple(points),
            _resets(points),
            identity[2] if len(keys) > 1 else "",
            identity,
        )
        for identity, points in found.items()
    ]


def _origins(timed: list[tuple[float, EnginePage]]) -> dict[str, str]:
    """Per page what its path says of the server: all but the time, and but a running number."""
    sources = {page.source for _, page in timed}
    if all(ASKED.search(source) for source in sources):
        return {source: ASKED.sub("", source) for source in sources}
    origins = {source: TIME.sub("", source) for source in sources}
    for fewer in ({source: NUMBER.sub("", source) for source in sources}, dict.fromkeys(sources, "")):
        # Where hardly two pages share a name, the numbers in it count pages: unless pages are of one moment.
        if len(set(origins.values())) * 2 <= len(sources) or _at_once(timed, fewer):
            break
        origins = fewer
    return origins


def _at_once(timed: list[tuple[float, EnginePage]], origins: Mapping[str, str]) -> bool:
    """Whether these names would make pages of one moment, under different names, pages of one server."""
    seen: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for time, page in timed:
        seen.setdefault((origins[page.source], page.engine), []).append((time, page.source))
    return any(
        after[0] - before[0] < SAME_MOMENT and before[1] != after[1]
        for pages in seen.values()
        for before, after in pairwise(sorted(pages))
    )


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
