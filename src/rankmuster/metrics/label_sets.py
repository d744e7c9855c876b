"""The label sets of one metric, which cannot grow without bound whatever names come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rankmuster.metrics.declared import OTHER, Metric

MOST_CHARACTERS = 128
"""Of a label's value: names of pods have at most 63, and a longer one is read by nobody."""


def clean(value: object) -> str:
    """As text that any page can hold: no half characters (names of files may have them), and not too long."""
    return str(value)[:MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


class LabelSets:
    """Which values each label of `metric` has now. Not for several threads at once."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._names = tuple(label.name for label in metric.labels)
        self._allowed = tuple(frozenset(label.values) for label in metric.labels)
        self._used: tuple[Counter[str], ...] = tuple(Counter() for _ in metric.labels)

    def key(self, labels: Mapping[str, object]) -> tuple[tuple[str, ...], int]:
        """The values in the order of the metric's labels, and how many of them were folded into "other".

        Raises ValueError where a label is missing or unknown.
        """
        if labels.keys() != set(self._names):
            want, have = ", ".join(self._names) or "none", ", ".join(sorted(labels)) or "none"
            raise ValueError(f"{self._metric.name} has the labels {want}; it was given {have}")
        found = []
        folded = 0
        for label, allowed, used in zip(self._metric.labels, self._allowed, self._used, strict=True):
            value = clean(labels[label.name])
            if value != OTHER and (value not in allowed if allowed else self._full(value, used, label.most)):
                value = OTHER
                folded += 1
            found.append(value)
        return tuple(found), folded

    @staticmethod
    def _full(value: str, used: Counter[str], most: int) -> bool:
        return value not in used and len(used) - (OTHER in used) >= most

    def took(self, key: tuple[str, ...]) -> None:
        """A label set has come."""
        for used, value in zip(self._used, key, strict=True):
            used[value] += 1

    def gave(self, key: tuple[str, ...]) -> None:
        """A label set has gone: its values make room for others."""
        for used, value in zip(self._used, key, strict=True):
            used[value] -= 1
            if not used[value]:
                del used[value]
