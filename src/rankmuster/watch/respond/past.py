"""What the record says was done of one incarnation, and what that means for a stop of it. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rankmuster.watch.respond.outcome import StepEnding

SCHEMA = "rankmuster.stops/1"

STOP = "stop"
"""The step that all others of a stop stand within."""


class Phase(str, Enum):
    BEGUN = "begun"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Key:
    """Whose stops are the same: on several nodes with one folder each takes its own evidence."""

    host: str
    instance: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the record. `time`: unix seconds. `number`: of the responses to this incarnation. `folder`: its name.

    `ending`, `note`, `status`, `seconds`: of a step that has ended. `view`: of a whole stop that has, as JSON.
    """

    key: Key
    number: int
    step: str
    phase: Phase
    time: float
    folder: str
    ending: StepEnding | None = None
    note: str = ""
    status: int | None = None
    seconds: float = 0.0
    view: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Past:
    """The newest response to one incarnation. `at`: when it began. `steps`: the newest entry of each step."""

    number: int
    at: float
    folder: str
    steps: Mapping[str, Entry] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it came to its end."""
        found = self.steps.get(STOP)
        return found is not None and found.phase is Phase.ENDED


def past_of(entries: Iterable[Entry], key: Key) -> Past | None:
    """The newest response to this incarnation that anybody began, None for none."""
    newest: dict[str, Entry] = {}
    number, at, folder = 0, 0.0, ""
    for entry in entries:
        if entry.key != key or entry.number < number:
            continue
        if entry.number > number:
            newest = {}
            number, at, folder = entry.number, entry.time, entry.folder
        earlier = newest.get(entry.step)
        # What was left to the next watch has not been done.
        if earlier is None or earlier.phase is Phase.BEGUN or earlier.ending is StepEnding.NOT_DONE:
            newest[entry.step] = entry
    return Past(number, at, folder, newest) if number else None


def due_again(past: Past, now: float, again_seconds: float | None) -> bool:
    """Whether a further stop of the same incarnation is a new one. A clock that was set back makes none due."""
    return again_seconds is not None and past.ended and now - past.at >= again_seconds


def line(entry: Entry) -> bytes:
    """The entry as one line of JSON, ASCII."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "time": round(entry.time, 3) if math.isfinite(entry.time) else 0.0,
        "host": entry.key.host,
        "instance": entry.key.instance,
        "incarnation": entry.key.incarnation,
        "number": entry.number,
        "step": entry.step,
        "phase": entry.phase.value,
        "folder": entry.folder,
    }
    if entry.ending is not None:
        document |= {"ending": entry.ending.value, "note": entry.note, "status": entry.status}
        document["seconds"] = round(entry.seconds, 3) if math.isfinite(entry.seconds) else 0.0
    if entry.view is not None:
        document["view"] = dict(entry.view)
    return json.dumps(document, allow_nan=False).encode("ascii") + b"\n"


def parse(data: bytes) -> Entry | None:
    """The entry that a line holds; None for a line cut by a crash, or of anybody else."""
    try:
        raw = json.loads(data)
        if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
            return None
        texts = [raw[name] for name in ("host", "instance", "incarnation", "step", "folder")]
        number, time = raw["number"], raw["time"]
        if not all(isinstance(text, str) for text in texts) or not isinstance(time, (int, float)):
            return None
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 1 << 31:
            return None
        host, instance, incarnation, step, folder = texts
        if "/" in folder or folder in ("", ".", ".."):
            return None
        ending = raw.get("ending")
        status, seconds, view = raw.get("status"), raw.get("seconds"), raw.get("view")
        return Entry(
            Key(host, instance, incarnation),
            number,
            step,
            Phase(raw["phase"]),
            float(time),
            folder,
            StepEnding(ending) if ending is not None else None,
            str(raw.get("note") or ""),
            status if isinstance(status, int) else None,
            float(seconds) if isinstance(seconds, (int, float)) else 0.0,
            view if isinstance(view, dict) else None,
        )
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
