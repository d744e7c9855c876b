"""Gateways as an incident found them: what others had stopped before it stays stopped, a weight of theirs is kept.

Written down before anything is touched. What an earlier incident of ours left stopped is no choice of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankmuster.model.incident import Event, EventKind, TrafficLook, TrafficState

AS_FOUND = "as_found"
"""Key of the data of a NOTED event: gateway -> {"state", "percent"}, where they were not ready at full weight."""

STOPPED = (TrafficState.STOPPED, TrafficState.CUT, TrafficState.ABSENT)

FULL = 95.0
"""Percent from which on a weight is full: gateways keep whole numbers, some of them below 10."""


@dataclass(frozen=True, slots=True)
class Found:
    """One gateway before the incident. `stopped`: by others. `percent`: of its full weight, None where it was full."""

    stopped: bool = False
    percent: float | None = None


READY = Found()


def noted(looks: Mapping[str, TrafficLook | None]) -> dict[str, dict[str, Any]]:
    """The data for `AS_FOUND`. What could not be seen counts as ready: nobody is known to have stopped it."""
    found: dict[str, dict[str, Any]] = {}
    for name, look in looks.items():
        if look is None:
            continue
        lowered = look.percent is not None and 0 < look.percent < FULL
        if look.state in STOPPED or (look.state is TrafficState.READY and lowered):
            found[name] = {"state": look.state.value, "percent": look.percent if lowered else None}
    return found


def found(events: Sequence[Event], gateway: str) -> Found:
    """How it was before."""
    one = (_newest(events) or {}).get(gateway)
    if not isinstance(one, Mapping):
        return READY
    percent = one.get("percent")
    return Found(
        stopped=one.get("state") in {state.value for state in STOPPED},
        percent=float(percent) if isinstance(percent, (int, float)) and 0 < percent < FULL else None,
    )


def left_by(events: Sequence[Event]) -> dict[str, Any]:
    """What an incident had found, for the next one of the same instance where this one left traffic stopped."""
    return dict(_newest(events) or {})


def _newest(events: Sequence[Event]) -> Mapping[str, Any] | None:
    for one in reversed(events):
        value = one.data.get(AS_FOUND) if one.kind is EventKind.NOTED else None
        if isinstance(value, Mapping):
            return value
    return None
