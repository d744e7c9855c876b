"""What is told of an instance when something is new, as one line for people or one JSON object for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum

SCHEMA = "rankmuster.event/1"


class Form(str, Enum):
    """How events are written."""

    TEXT = "text"
    JSON = "json"


class Severity(str, Enum):
    """ALARM: somebody should look now. NOTE: good to know."""

    ALARM = "alarm"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Told:
    """`time`: unix seconds. `event`: a word ("stopped", "resumed", "appeared", "evidence"). `instance` "": the node's.

    `more`: further facts, by name.
    """

    time: float
    severity: Severity
    instance: str
    event: str
    text: str
    more: tuple[tuple[str, object], ...] = ()


def line(told: Told, form: Form) -> str:
    """Without a line end. The text form is not yet inert: names in it come from the machine."""
    if form is Form.JSON:
        known = {
            "schema": SCHEMA,
            "time": round(told.time, 3),
            "severity": told.severity.value,
            "instance": told.instance or None,
            "event": told.event,
            "text": told.text,
        }
        return json.dumps({**dict(told.more), **known}, default=str)
    at = datetime.fromtimestamp(told.time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    who = f"{told.instance}: " if told.instance else ""
    loud = told.event.upper() if told.severity is Severity.ALARM else told.event
    return f"{at} {who}{loud}: {told.text}"
