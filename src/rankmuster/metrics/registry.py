"""All that is counted, in one place: any part of the program registers its metrics here, and one page shows them.

The values are kept here and not in prometheus_client's objects: what comes in bulk (whole buckets of somebody else's
histogram), label sets that are bounded and that go, and a look that is seen whole or not at all, it has no calls for.
It makes the page (`scrape.py`), and is imported there only: counting needs nothing that is not installed.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rankmuster.metrics.declared import Kind, Label, Metric
from rankmuster.metrics.label_sets import LabelSets

Key = tuple[str, ...]


class MetricClash(ValueError):
    """Two parts registered one name and mean different things by it: found when the program starts."""


FOLDED = Metric(
    "rankmuster_labels_folded_total",
    Kind.COUNTER,
    "Values of labels that became `other`, since they were unknown or too many.",
    (Label("metric", "the metric whose label it was", most=1000),),
)


@dataclass(slots=True)
class Buckets:
    """`counts`: per bucket, not cumulated, the last one above all bounds; `total`: sum of the values."""

    counts: list[float]
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One label set as it is now. `values`: of the labels, in the metric's order. `buckets`: of a histogram."""

    values: Key
    value: float = 0.0
    buckets: tuple[float, ...] = ()


@dataclass(slots=True)
class _Family:
    metric: Metric
    sets: LabelSets
    numbers: dict[Key, float] = field(default_factory=dict)
    spread: dict[Key, Buckets] = field(default_factory=dict)
    absolute: dict[Key, float] = field(default_factory=dict)  # what somebody else's counter showed the last time

    def remove(self, key: Key) -> None:
        held: dict[Key, float] | dict[Key, Buckets] = (
            self.spread if self.metric.kind is Kind.HISTOGRAM else self.numbers
        )
        if key in held:
            del held[key]
            self.absolute.pop(key, None)
            self.sets.gave(key)

    def label_sets(self) -> list[Key]:
        return [*self.numbers, *self.spread]


class Registry:
    """For all threads. A metric is registered by asking for it; asking again gives the same one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._families: dict[str, _Family] = {}
        self.register(FOLDED)

    def register(self, *metrics: Metric) -> None:
        """Makes them known, so that a clash shows at the start. Raises MetricClash."""
        with self._lock:
            for metric in metrics:
                known = self._families.get(metric.name)
                if known is None:
                    self._families[metric.name] = _Family(metric, LabelSets(metric))
                elif known.metric != metric:
                    raise MetricClash(
                        f"{metric.name} is registered twice: as {_told(known.metric)}, and as {_told(metric)}; "
                        "one of the two parts must name its own differently"
                    )

    def counter(self, metric: Metric) -> CounterOf:
        """Raises MetricClash, and ValueError for another kind of metric; so do `gauge` and `histogram`."""
        return CounterOf(self, self._family(metric, Kind.COUNTER))

    def gauge(self, metric: Metric) -> GaugeOf:
        return GaugeOf(self, self._family(metric, Kind.GAUGE))

    def histogram(self, metric: Metric) -> HistogramOf:
        return HistogramOf(self, self._family(metric, Kind.HISTOGRAM))

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is set inside is seen on a page whole or not at all. To be held for milliseconds."""
        with self._lock:
            yield

    def forget(self, label: str, value: str, *, counts: bool = False) -> None:
        """Removes every gauge in which `label` is `value`: what it told of has gone. `counts`: all else of it too."""
        with self._lock:
            for family in self._families.values():
                if family.metric.kind is not Kind.GAUGE and not counts:
                    continue
                for place, one in enumerate(family.metric.labels):
                    if one.name == label:
                        for key in [key for key in family.label_sets() if key[place] == value]:
                            family.remove(key)

    def metrics(self) -> tuple[Metric, ...]:
        """All that are registered, by name."""
        with self._lock:
            return tuple(self._families[name].metric for name in sorted(self._families))

    def samples(self) -> tuple[tuple[Metric, tuple[Sample, ...]], ...]:
        """Everything as it is at this moment, by name; metrics that have no label set yet are left out."""
        with self._lock:
            return tuple(
                (family.metric, _samples(family))
                for _, family in sorted(self._families.items())
                if family.numbers or family.spread
            )

    def _family(self, metric: Metric, kind: Kind) -> _Family:
        if metric.kind is not kind:
            raise ValueError(f"{metric.name} is a {metric.kind.value}, not a {kind.value}")
        self.register(metric)
        return self._families[metric.name]

    def key(self, family: _Family, labels: dict[str, object]) -> Key:
        """For the classes below, which hold the lock."""
        key, folded = family.sets.key(labels)
        if folded and family.metric is not FOLDED:
            self.counter(FOLDED).add(folded, metric=family.metric.name)
        if key not in family.numbers and key not in family.spread:
            family.sets.took(key)
            if family.metric.kind is Kind.HISTOGRAM:
                family.spread[key] = Buckets([0.0] * (len(family.metric.buckets) + 1))
            else:
                family.numbers[key] = 0.0
        return key


def _told(metric: Metric) -> str:
    labels = ", ".join(label.name for label in metric.labels) or "no labels"
    return f"a {metric.kind.value} with {labels} ({metric.text!r})"


def _samples(family: _Family) -> tuple[Sample, ...]:
    numbers = [Sample(key, value) for key, value in family.numbers.items()]
    spread = [Sample(key, held.total, tuple(held.counts)) for key, held in family.spread.items()]
    return (*numbers, *spread)


class _Of:
    def __init__(self, registry: Registry, family: _Family) -> None:
        self._registry = registry
        self._family = family

    def remove(self, **labels: object) -> None:
        """This label set is shown no longer; one that is not there is no error."""
        with self._registry.together():
            self._family.remove(self._family.sets.key(labels)[0])

    def clear(self) -> None:
        """All of them."""
        with self._registry.together():
            for key in self._family.label_sets():
                self._family.remove(key)


class CounterOf(_Of):
    def add(self, value: float = 1.0, **labels: object) -> None:
        """0 makes the label set appear, so that the first rise of it shows as one. Raises ValueError below that."""
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{self._family.metric.name} cannot rise by {value}")
        with self._registry.together():
            self._family.numbers[self._registry.key(self._family, labels)] += value

    def follow(self, total: float, **labels: object) -> None:
        """Rises with a count that somebody else keeps; where that fell, it has begun anew. Nonsense is left out."""
        if not (math.isfinite(total) and total >= 0):
            return
        with self._registry.together():
            key = self._registry.key(self._family, labels)
            before = self._family.absolute.get(key, 0.0)
            self._family.numbers[key] += total - before if total >= before else total
            self._family.absolute[key] = total


class GaugeOf(_Of):
    def set(self, value: float | None, **labels: object) -> None:
        """None, and what is no number, removes it: an unknown value is not 0."""
        with self._registry.together():
            if value is None or math.isnan(value):
                self._family.remove(self._family.sets.key(labels)[0])
            else:
                self._family.numbers[self._registry.key(self._family, labels)] = float(value)

    def choose(self, label: str, chosen: str, **labels: object) -> None:
        """Of all values that `label` may have, 1 for `chosen` and 0 for the others; an unknown one counts as other."""
        declared = next(one for one in self._family.metric.labels if one.name == label)
        with self._registry.together():
            for value in declared.values:
                self.set(float(value == chosen), **{label: value}, **labels)
            if chosen not in declared.values:
                self.set(1.0, **{label: chosen}, **labels)


class HistogramOf(_Of):
    def observe(self, value: float, count: float = 1.0, **labels: object) -> None:
        """`count`: how often it came. Raises ValueError for what is no number or negative."""
        self.observe_all(((value, count),), **labels)

    def observe_all(self, observed: Iterable[tuple[float, float]], **labels: object) -> None:
        """The same for many (value, count) of one label set."""
        pairs = tuple(observed)
        for value, count in pairs:
            if not (math.isfinite(value) and value >= 0 and math.isfinite(count) and count >= 0):
                raise ValueError(f"{self._family.metric.name} cannot observe {value}, {count} times")
        bounds = self._family.metric.buckets
        with self._registry.together():
            held = self._family.spread[self._registry.key(self._family, labels)]
            for value, count in pairs:
                held.counts[bisect_left(bounds, value)] += count
                held.total += value * count
