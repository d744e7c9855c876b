"""What was done on a stop, and what the verdict on its bundle says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.metrics.declared import INSTANCE
from rankmuster.metrics.registry import Registry
from rankmuster.watch.export import metrics as m
from rankmuster.watch.export.fill_looks import fault_labels
from rankmuster.watch.respond.outcome import Ended, StepEnding, StopOutcome

NOBODY = -1.0
"""In place of a rank: ranks begin at 0, and a gauge that goes away looks like one that was never there."""

ALARMING = (StepEnding.DONE, StepEnding.PARTIAL, StepEnding.FAILED, StepEnding.TIMED_OUT)
"""Endings that are there from the start, at 0, so that the first failure shows as a rise."""

MOST_SECONDS = 1e6
"""A collection ends within 600 s; what is above is no time."""

MOST_RANK = 1 << 24
"""Larger numbers are no ranks, and a gauge holds all below exactly."""

_RAN = frozenset(ALARMING)


class StopMetrics:
    """For any thread."""

    def __init__(self, registry: Registry) -> None:
        registry.register(*m.OF_RESPONSES)
        self._registry = registry

    def begin(self, instance: str) -> None:
        """An instance has come: nothing was done for it yet."""
        name: dict[str, object] = {INSTANCE.name: instance}
        for step in m.STEPS:
            for ending in ALARMING:
                self._registry.counter(m.RESPONSES).add(0, step=step, outcome=ending.value, **name)
        self._registry.gauge(m.FIRST_ODD).set(NOBODY, **name)

    def take(self, instance: str, outcome: StopOutcome) -> None:
        """How a response ended, once it has. What an earlier watch or an earlier stop did counts no second time."""
        steps = [("collect", outcome.collect), ("diagnose", outcome.diagnose)]
        steps += [("hook", hook.ended) for hook in outcome.hooks]
        with self._registry.together():
            for step, ended in steps:
                self._step(instance, step, ended)
            collected = outcome.collect
            if not collected.repeated and collected.ending in _RAN:
                if 0 <= collected.seconds < MOST_SECONDS:
                    self._registry.histogram(m.COLLECT_SECONDS).observe(collected.seconds)
                for collector, ending in outcome.collectors.items():
                    self._registry.counter(m.COLLECTORS).add(1, collector=collector, ending=ending)
            if outcome.verdict is not None:
                self._verdict(instance, outcome.verdict, repeated=outcome.diagnose.repeated)

    def _step(self, instance: str, step: str, ended: Ended) -> None:
        if not ended.repeated and ended.ending not in m.UNENDED:
            name = {INSTANCE.name: instance}
            self._registry.counter(m.RESPONSES).add(1, step=step, outcome=ended.ending.value, **name)

    def _verdict(self, instance: str, verdict: Mapping[str, Any], *, repeated: bool) -> None:
        name = {INSTANCE.name: instance}
        odd = first_odd(verdict)
        self._registry.gauge(m.FIRST_ODD).set(NOBODY if odd is None else float(odd), **name)
        if not repeated:
            labels = fault_labels(verdict.get("class"), verdict.get("subclass"))
            self._registry.counter(m.VERDICTS).add(1, **labels, **name)


def first_odd(verdict: Mapping[str, Any]) -> int | None:
    """The rank to look at first: the lowest culprit's, else the lowest that is missing at the first divergence, else
    the lowest suspect's; None where the verdict (schema `rankmuster.verdict/1`) names no rank."""
    suspects = [one for one in _list(verdict.get("suspects")) if isinstance(one, Mapping)]
    divergence = verdict.get("first_divergence")
    missing = _list(divergence.get("missing")) if isinstance(divergence, Mapping) else []
    for ranks in (
        [one.get("rank") for one in suspects if one.get("role") == "culprit"],
        missing,
        [one.get("rank") for one in suspects if one.get("role") == "suspect"],
    ):
        known = [
            rank for rank in ranks if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < MOST_RANK
        ]
        if known:
            return min(known)
    return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else list(value) if isinstance(value, tuple) else []
