"""Steps in the level of a class: a rollout, or a week of one switch. Marked, never absorbed."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.history import ChangePoint, ClassHistory


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """What can be set of the search."""

    false_alarm_budget: float = 0.01


def find_changes(history: ClassHistory, *, settings: ChangeSettings = ChangeSettings()) -> tuple[ChangePoint, ...]:
    """Being built."""
    raise NotImplementedError
