"""A node's results that left their level: what is known of one operation in one size regime."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from rankmuster.baseline.drift.lanes import Lane
from rankmuster.baseline.drift.settings import DAY

WEEK = 7 * DAY
"""Seconds."""


class Shape(str, Enum):
    """How a level was left."""

    STEP = "step"
    CREEP = "creep"  # a little less every day


@dataclass(frozen=True, slots=True)
class Loss:
    """One lane of one node that left its level. `change`: relative, below 0 is slower. `since`: unix seconds of the
    first run that shows it. `classes`: of the run before it and of that run; they differ at a change of class.

    `per_week`: relative change in a week where the shape is a creep, else None.
    """

    node: str
    lane: Lane
    change: float
    since: float
    classes: tuple[str, str]
    shape: Shape
    per_week: float | None
    runs: tuple[int, int]
    p_value: float

    @property
    def span_s(self) -> float:
        """Seconds over which it came about: 0 for a step."""
        if self.per_week is None or self.per_week == 0 or min(self.per_week, self.change) <= -1:
            return 0.0
        return math.log1p(self.change) / math.log1p(self.per_week) * WEEK
