"""One action of a step: what is called, how one looks whether it holds, and an answer held against what is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending


class Shown(str, Enum):
    """What a look shows of what is wanted."""

    HOLDS = "holds"
    NOT = "not"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sight:
    """`note`: what was seen. `data`: what the result keeps of it."""

    shown: Shown
    note: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """`name`: unique in its step. `slot`: the actuator's name; two calls of one never run at once.

    `call` gets a deadline and the operation's name; `look` says whether what is wanted holds; None: nobody can look.
    `safe`: it may be repeated without looking. `bound`: repeating it while the look says NOT does no second one.
    `attempt_seconds`: of one attempt, None for all the time there is. `incarnation`: which one it is bound to.
    `unless`: why it is only observed although it is enabled. `data`: what its result says besides.
    `part_will_do`: PARTIAL is not tried again, since what is missing does not come back.
    """

    name: str
    slot: str
    call: Callable[[Deadline, str], Answer]
    would: Callable[[], tuple[str, ...]]
    look: Callable[[Deadline], Sight] | None = None
    enabled: bool = True
    safe: bool = False
    bound: bool = False
    attempt_seconds: float | None = None
    incarnation: str | None = None
    unless: str | None = None
    part_will_do: bool = False
    data: Mapping[str, Any] = field(default_factory=dict)


FINAL = (Ending.DONE, Ending.REFUSED, Ending.NODE, Ending.SKIPPED)
"""Answers that another attempt would not change."""


def judged(answer: Answer, sight: Sight) -> Answer:
    """The answer, held against what is seen."""
    if answer.ending is Ending.DONE:
        if sight.shown is Shown.NOT:
            note = f"it said done ({answer.note or 'without a word'}), and a look shows otherwise: {sight.note}"
            return replace(answer, ending=Ending.FAILED, note=note)
        return replace(answer, data={**sight.data, **answer.data})
    if sight.shown is Shown.HOLDS and answer.ending in (
        Ending.FAILED,
        Ending.TIMED_OUT,
        Ending.PARTIAL,
        Ending.UNKNOWN,
    ):
        note = (
            f"it said {answer.ending.value} ({answer.note or 'without a word'}), and a look shows it done: {sight.note}"
        )
        return replace(answer, ending=Ending.DONE, note=note, data={**sight.data, **answer.data})
    if sight.shown is Shown.NOT and sight.note and sight.note not in answer.note:
        return replace(answer, note=f"{answer.note}; a look shows: {sight.note}" if answer.note else sight.note)
    return answer
