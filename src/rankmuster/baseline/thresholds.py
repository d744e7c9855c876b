"""Every number by which results are judged, with its unit, reason and source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What can be set of the judgement."""

    false_alarm_budget: float = 0.01
