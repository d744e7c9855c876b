"""Conditions as Kubernetes has them: the time of the last transition stays while the status stays. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rankmuster.adapters.kube.fields import stamp

MOST_MESSAGE = 1_024


@dataclass(frozen=True, slots=True)
class Wanted:
    """`status`: None is Unknown."""

    type: str
    status: bool | None
    reason: str
    message: str = ""


def conditions(
    wanted: Iterable[Wanted], before: object, now: float, generation: int | None = None
) -> list[dict[str, Any]]:
    """As plain values. `before`: what the object has now, whatever that is."""
    known: dict[str, Mapping[str, Any]] = {}
    if isinstance(before, list):
        known = {str(one.get("type")): one for one in before if isinstance(one, Mapping)}
    found = []
    for one in wanted:
        status = "Unknown" if one.status is None else str(one.status)
        old = known.get(one.type, {})
        since = old.get("lastTransitionTime")
        same = old.get("status") == status and isinstance(since, str)
        made: dict[str, Any] = {
            "type": one.type,
            "status": status,
            "reason": one.reason,
            "message": one.message[:MOST_MESSAGE],
            "lastTransitionTime": since if same else stamp(now),
        }
        if generation is not None:
            made["observedGeneration"] = generation
        found.append(made)
    return found
