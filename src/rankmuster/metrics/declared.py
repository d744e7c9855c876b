"""What a metric is before anybody counts: its name, what it means, and labels that cannot grow without bound."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Kind(str, Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """`values`: all that it may have; empty where they are what runs on the node (then `most` bounds their number)."""

    name: str
    text: str
    values: tuple[str, ...] = ()
    most: int = 64


PREFIX = "rankmuster_"
_NAME = re.compile(r"rankmuster_[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Metric:
    """One family. `name`: as scraped, counters end in `_total`, times in `_seconds`. `text`: one sentence, with unit.

    `buckets`: upper bounds of a histogram, rising, without +Inf. Raises ValueError for a name that breaks the rules of
    https://prometheus.io/docs/practices/naming/.
    """

    name: str
    kind: Kind
    text: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"{self.name!r} does not begin with {PREFIX} or has other than a-z, 0-9 and _")
        if (self.kind is Kind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"{self.name}: counters end in _total, and nothing else does")
        if (self.kind is Kind.HISTOGRAM) != bool(self.buckets):
            raise ValueError(f"{self.name}: a histogram has buckets, and nothing else does")
        if list(self.buckets) != sorted(set(self.buckets)):
            raise ValueError(f"{self.name}: its buckets do not rise")
