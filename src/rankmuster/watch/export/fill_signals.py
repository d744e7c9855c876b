"""What signals say besides their evidence: calls and steps that somebody counted, and time-outs in logs."""

from __future__ import annotations

import math

from rankmuster.metrics.declared import INSTANCE, Metric
from rankmuster.metrics.registry import Registry
from rankmuster.model.frameworklog import DumpNotice, EngineWatchdog, WatchdogTimeout
from rankmuster.watch.export import metrics as m
from rankmuster.watch.export.bundle_counts import BundleCounts
from rankmuster.watch.export.collectives import collective_of
from rankmuster.watch.signals.signal import Counted

COLLECTIVE = "collective"
"""`Counted.what` of calls of collectives; labels `source` and `collective` (any name of the operation)."""

MOST_VALUE = 1e9
MOST_COUNT = 1e15
"""Thirty years of seconds, and more calls than those have: what is above is damage, and would spoil a sum for ever."""

STEP = "step"
"""`Counted.what` of steps of an engine; its labels are not looked at."""


class SignalMetrics:
    """For the watch's loop; what it is given may be nonsense, and is then left out."""

    def __init__(self, registry: Registry) -> None:
        registry.register(*m.OF_SIGNALS)
        self._registry = registry

    def begin(self, instance: str) -> None:
        """An instance has come: its counts are seen from 0."""
        for event in m.DUMPS.labels[1].values:
            self._registry.counter(m.DUMPS).add(0, event=event, **{INSTANCE.name: instance})
        for source in m.TIMEOUTS.labels[1].values:
            self._registry.counter(m.TIMEOUTS).add(0, source=source, collective=m.NONE, **{INSTANCE.name: instance})

    def counted(self, instance: str, what: Counted) -> None:
        """A `Counted`; one whose quantity is not known here is left out. NaN: a call whose duration is not known."""
        name: dict[str, object] = {INSTANCE.name: instance}
        pairs = _pairs(what)
        timed = [pair for pair in pairs if math.isfinite(pair[0])]
        if what.what == STEP:
            self._observe(m.STEP_SECONDS, timed, name)
        elif what.what == COLLECTIVE:
            labels = dict(what.labels)
            name["source"] = labels.get("source", m.NONE)
            name["collective"] = collective_of(labels.get("collective"))
            with self._registry.together():
                self._registry.counter(m.CALLS).add(sum(count for _, count in pairs), **name)
                self._observe(m.CALL_SECONDS, timed, name)

    def _observe(self, metric: Metric, pairs: list[tuple[float, float]], labels: dict[str, object]) -> None:
        if pairs:
            self._registry.histogram(metric).observe_all(pairs, **labels)

    def heard(self, instance: str, observation: object) -> None:
        """Any observation of the instance: those that are alarms of watchdogs count, all others are passed over."""
        counter = self._registry.counter
        name: dict[str, object] = {INSTANCE.name: instance}
        if isinstance(observation, WatchdogTimeout):
            counter(m.TIMEOUTS).add(1, source="torch", collective=collective_of(observation.op), **name)
        elif isinstance(observation, EngineWatchdog) and not observation.weak:
            counter(m.TIMEOUTS).add(1, source="engine", collective=m.NONE, **name)
        elif isinstance(observation, DumpNotice) and not observation.retry:
            counter(m.DUMPS).add(1, event="announced", **name)

    def bundle(self, instance: str, counts: BundleCounts) -> None:
        """What a bundle of a stop held."""
        for one in counts.calls:
            self.counted(instance, one)
        for event, number in (("asked", counts.asked), ("taken", counts.taken)):
            self._registry.counter(m.DUMPS).add(max(number, 0), event=event, **{INSTANCE.name: instance})


def _pairs(what: Counted) -> list[tuple[float, float]]:
    """(value, how often) of what can be counted: nothing negative, nothing endless."""
    if what.counts and len(what.counts) != len(what.values):
        return []
    counts = what.counts or (1.0,) * len(what.values)
    return [
        (value, count)
        for value, count in zip(what.values, counts, strict=True)
        if (math.isnan(value) or 0 <= value < MOST_VALUE) and 0 < count < MOST_COUNT
    ]
