"""The engines that are looked for on a page: those that are known, and those that the configuration describes.

A mapping that is wrong must not look like an instance that rests: what is missing is named, with what the page has
instead, and so is a step counter that is a gauge.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rankmuster.evidence import engine_table as table
from rankmuster.model.engine import EnginePage
from rankmuster.watch.config import Mapping
from rankmuster.watch.signals.engine_filter import Filtered, wanted

LIKENESS = 0.6
"""difflib's ratio from which a name is similar: its own default, under which nearly every name is."""

MOST_COMPARED = 1000
"""Names of a page that are compared: of more the comparison takes a second."""

MOST_TOLD = 6
"""Names in a message."""

READINGS = 20
"""Readings over which falls are counted: 100 s at the default period."""

MOST_FALLS = 3
"""Falls within these that no server's restarts explain: a start takes longer than half a minute."""

NOT_COUNTERS = frozenset({"gauge", "info", "stateset"})
"""Types of which no sample is a counter."""

_SELECTED = re.compile(r'([A-Za-z_:][\w:]*)\{([A-Za-z_]\w*)="([^"{}]*)"\}')
_OF_HISTOGRAM = ("_bucket", "_count", "_sum", "_total")


@dataclass(frozen=True, slots=True)
class Tables:
    """What pages are read with. `index`: by name. `engines`: by name. `own`: names of mappings, with these.

    `buckets`: sample name -> the engine's histogram of step times.
    """

    index: table.Index
    engines: dict[str, table.Engine]
    own: dict[str, Mapping]
    buckets: dict[str, tuple[str, int, table.Histogram]]
    pattern: re.Pattern[bytes] = field(compare=False)


def tables(mappings: Iterable[Mapping] = ()) -> Tables:
    """The known engines and those of `mappings`, which outrank them where both know a name.

    A mapping's name may select one value of a label, `requests{state="active"}`.
    """
    mapped = tuple(mappings)
    own = {mapping.name: mapping for mapping in mapped}
    engines = {engine.name: engine for engine in table.ENGINES if engine.name not in own}
    index = dict(table.index(engines.values()))
    made = [_engine(mapping) for mapping in mapped]
    index.update(table.index(made, spelled=False))
    buckets = {}
    for engine, spelled in [*((one, True) for one in engines.values()), *((one, False) for one in made)]:
        for rank, histogram in enumerate(engine.step_seconds):
            for name in table.spellings(histogram.name) if spelled else (histogram.name,):
                buckets[f"{name}_bucket"] = (engine.name, rank, histogram)
    engines.update((engine.name, engine) for engine in made)
    types = {name for mapping in mapped for step in mapping.steps for name in _families(_plain(step))}
    return Tables(index, engines, own, buckets, wanted([*index, *buckets], sorted(types)))


def _plain(name: str) -> str:
    return name.split("{", 1)[0]


def _engine(mapping: Mapping) -> table.Engine:
    roles = (
        (table.Role.RUNNING, mapping.running),
        (table.Role.WAITING, mapping.waiting),
        (table.Role.STEP, mapping.steps),
        (table.Role.END, mapping.ends),
        (table.Role.GAUGE, mapping.gauges),
        (table.Role.PAUSED, mapping.paused),
    )
    series = tuple(_series(name, role) for role, names in roles for name in names)
    seconds = (table.Histogram(mapping.step_seconds),) if mapping.step_seconds else ()
    return table.Engine(mapping.name, mapping.keys, series, seconds)


def _series(name: str, role: table.Role) -> table.Series:
    selected = _SELECTED.fullmatch(name.strip())
    if selected is None:
        return table.Series(name.strip(), role)
    return table.Series(selected[1], role, split=selected[2], only=(selected[3],))


def _families(name: str) -> tuple[str, ...]:
    """Under which names the type of a sample may be told: OpenMetrics leaves `_total` out, histograms their parts."""
    return (name, *(name.removesuffix(end) for end in _OF_HISTOGRAM if name.endswith(end)))


@dataclass(slots=True)
class Falls:
    """Step counters of a mapping's pages that fall again and again, where the page tells no types."""

    _before: dict[tuple[str, str], float] = field(default_factory=dict)
    _fell: deque[str | None] = field(default_factory=lambda: deque(maxlen=READINGS))

    def add(self, page: EnginePage) -> str | None:
        """Takes a page; why a step counter of it is none, or None."""
        now = {(stream.key, name): value for stream in page.streams for name, value in stream.steps.items()}
        fell = [name for (key, name), value in now.items() if value < self._before.get((key, name), value)]
        self._before = now
        self._fell.append(fell[0] if fell else None)
        falls = [name for name in self._fell if name is not None]
        if len(falls) < MOST_FALLS:
            return None
        return (
            f"the mapping {page.engine} names {falls[-1]} under steps, which fell {len(falls)} times in "
            f"{len(self._fell)} readings: a counter only rises, and falls when its server is started again"
        )


def no_counters(mapping: Mapping, page: Filtered) -> str | None:
    """Why its step counters are none, by the page's own word; None where nothing speaks against them."""
    for step in mapping.steps:
        kind = next((page.types[name] for name in _families(_plain(step)) if name in page.types), None)
        if kind in NOT_COUNTERS:
            return (
                f"the mapping {mapping.name} names {step} under steps, which is a {kind} on the page and no counter: "
                "what rises and falls belongs under gauges"
            )
    return None


@lru_cache(maxsize=8)
def missing(mapping: Mapping, there: frozenset[str]) -> str | None:
    """Which names of the mapping the page lacks and what is similar there; None where it has all.

    Remembered, since a page that does not fit comes again every period and is compared name by name.
    """
    every = [
        *mapping.running,
        *mapping.waiting,
        *mapping.steps,
        *mapping.ends,
        *mapping.gauges,
        *mapping.paused,
        *((f"{mapping.step_seconds}_bucket",) if mapping.step_seconds else ()),
    ]
    absent = list(dict.fromkeys(plain for name in every if (plain := _plain(name).strip()) not in there))
    if not absent:
        return None
    what = "none of its names is on the page" if len(absent) == len({_plain(one).strip() for one in every}) else ""
    what = what or "these of its names are not on the page"
    near = similar(absent, there)
    told = f"similar ones there: {_told(near)}" if near else f"there are: {_told(sorted(there)) or 'none at all'}"
    return f"the mapping {mapping.name}: {what}: {_told(absent)}; {told}"


def similar(absent: Sequence[str], there: Iterable[str]) -> list[str]:
    """Names of the page that may be meant, the likest first."""
    import difflib  # only where something is wrong

    candidates = sorted(there)[:MOST_COMPARED]
    found: list[str] = []
    for name in absent[:MOST_TOLD]:
        found.extend(difflib.get_close_matches(name, candidates, n=2, cutoff=LIKENESS))
    return list(dict.fromkeys(found))


def _told(names: Sequence[str]) -> str:
    more = len(names) - MOST_TOLD
    return ", ".join(names[:MOST_TOLD]) + (f" and {more} more" if more > 0 else "")


def unknown(page: Filtered, mappings: Iterable[Mapping]) -> str:
    """Why nothing on the page can be used."""
    wrong = [text for mapping in mappings if (text := missing(mapping, page.names)) is not None]
    if wrong:
        return "; ".join(wrong[:3])
    return (
        "the page has no series of a serving engine that is known here (vLLM with --disable-log-stats? not ready "
        "yet?); the configuration may map another engine's. There are: " + (_told(sorted(page.names)) or "none")
    )
