"""What the journal of a drilled incident says, and the files that it names: nothing here asks a clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rankmuster.model.incident import Event, EventKind, Step


def events_of(journal: Path) -> tuple[str | None, str | None, tuple[Event, ...]]:
    """(id, outcome, events) of the first incident; Nones where there is none. Raises HistoryError."""
    from rankmuster.store.journal import Journal  # needs SQLAlchemy, which other drills do without

    if not journal.exists():
        return None, None, ()
    with Journal.open(str(journal), create=False) as opened:
        heads = opened.incidents()
        if not heads:
            return None, None, ()
        first = heads[-1]
        return first.id, first.outcome.value if first.outcome else None, opened.events(first.id)


def incidents_in(journal: Path) -> int:
    """How many there are. Raises HistoryError."""
    from rankmuster.store.journal import Journal  # as above

    if not journal.exists():
        return 0
    with Journal.open(str(journal), create=False) as opened:
        return len(opened.incidents())


def data_of(events: Sequence[Event], step: Step, key: str) -> str | None:
    """The last one that a result of that step has."""
    found = [event.data.get(key) for event in events if event.kind is EventKind.RESULT and event.step is step]
    return next((str(one) for one in reversed(found) if one), None)


def plain_file(path: str | None) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        plain = json.loads(Path(path).read_bytes()) if path is not None else {}
        return plain if isinstance(plain, dict) else {}
    return {}


def newest_file(bundle: str | None) -> float | None:
    """When the last file of the bundle was written; None for one without a manifest, which is no bundle yet."""
    if bundle is None or not (Path(bundle) / "manifest.json").exists():
        return None
    return max(one.stat().st_mtime for one in Path(bundle).rglob("*") if one.is_file())


def step_endings(events: Sequence[Event]) -> dict[str, str]:
    """How each step ended."""
    ends = (event for event in events if event.kind is EventKind.STEP_ENDED and event.step and event.ending)
    return {event.step.value: event.ending.value for event in ends if event.step and event.ending}


def story(events: Sequence[Event]) -> str:
    """Steps that did not end well, with why."""
    bad = [
        f"{event.step.value} {event.ending.value}: {event.note}"
        for event in events
        if event.kind is EventKind.STEP_ENDED and event.step and event.ending and not event.ending.good
    ]
    return "; ".join(bad)[-800:] or "no step failed"


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
