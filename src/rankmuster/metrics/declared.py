"""What a metric is before anybody counts: its name, what it means, and labels that cannot grow without bound."""

from __future__ import annotations

import math
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

OTHER = "other"
"""What a label's value becomes when it is none of those that are known, or one more than may be counted."""

INSTANCE = Label(
    "llm_instance",
    "the instance, as the watch names it (not `instance`: that is Prometheus' own name for the address it scrapes)",
)

_RESERVED = ("_bucket", "_sum", "_count", "_created")
"""Ends of names that a histogram makes for itself."""

_LABEL = re.compile(r"[a-z][a-z0-9_]*\Z")
_NOT_FOR_LABELS = ("le", "quantile", "instance", "job")
"""Prometheus' own: a scraped `instance` or `job` would be renamed to `exported_instance`."""

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
        if self.name.endswith(_RESERVED):
            raise ValueError(f"{self.name}: {', '.join(_RESERVED)} are what a histogram appends")
        names = [label.name for label in self.labels]
        for name in names:
            if not _LABEL.match(name) or name in _NOT_FOR_LABELS or names.count(name) > 1:
                raise ValueError(f"{self.name}: the label {name!r} is no name, is there twice, or is Prometheus' own")
        if (self.kind is Kind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"{self.name}: counters end in _total, and nothing else does")
        if (self.kind is Kind.HISTOGRAM) != bool(self.buckets):
            raise ValueError(f"{self.name}: a histogram has buckets, and nothing else does")
        if not all(math.isfinite(bound) for bound in self.buckets):
            raise ValueError(f"{self.name}: its buckets are not all numbers; +Inf is added by itself")
        if list(self.buckets) != sorted(set(self.buckets)):
            raise ValueError(f"{self.name}: its buckets do not rise")
