"""Events of incidents: written once, in order, each with a digest over what it says."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, insert, select

from rankmuster.model.incident import Ending, Event, EventKind, Step
from rankmuster.store.errors import Damaged, Refused
from rankmuster.store.journal_damage import REMEDY, kept, word
from rankmuster.store.journal_data import json_of
from rankmuster.store.journal_tables import event_table
from rankmuster.store.plain import sound

MOST_NAME = 400
"""Characters of an action's or a person's name."""

_COLUMNS = ("sequence", "kind", "at", "step", "action", "ending", "note", "by", "data", "digest")


def write_event(connection: Connection, number: int, incident: str, sequence: int, event: Event) -> Event:
    """Adds it as it will be read again. `number`: the incident's row. Raises Refused."""
    if not math.isfinite(event.at):
        raise Refused(f"the event {event.kind.value} of {incident} cannot be written: its time is {event.at}")
    data = json_of(event.data)
    made = replace(
        event,
        sequence=sequence,
        at=float(event.at),
        action=None if event.action is None else sound(event.action, MOST_NAME),
        note=sound(event.note),
        by=sound(event.by, MOST_NAME),
        data=json.loads(data),
    )
    row: dict[str, Any] = {
        "kind": made.kind.value,
        "at": made.at,
        "step": None if made.step is None else made.step.value,
        "action": made.action,
        "ending": None if made.ending is None else made.ending.value,
        "note": made.note,
        "by": made.by,
        "data": data,
    }
    row |= {"incident_id": number, "sequence": sequence, "digest": _digest(incident, sequence, row)}
    connection.execute(insert(event_table), row)
    return made


def read_events(connection: Connection, number: int, incident: str, last: int, after: int) -> tuple[Event, ...]:
    """Those after `after`, which have to be all up to `last`. Raises Damaged, NewerHistory."""
    query = (
        select(*(event_table.c[name] for name in _COLUMNS))
        .where(event_table.c.incident_id == number, event_table.c.sequence > after)
        .order_by(event_table.c.sequence)
    )
    rows = connection.execute(query).mappings().all()
    wanted = list(range(max(after, 0) + 1, last + 1))
    found = [row["sequence"] for row in rows]
    if found != wanted:
        odd = next((one for one in wanted if one not in set(found)), None)
        said = f"lacks its event {odd}" if odd is not None else f"has more than its {last} events"
        raise Damaged(f"the incident {incident} in the journal {said}: {REMEDY}")
    return tuple(_event(incident, row) for row in rows)


def _event(incident: str, row: Any) -> Event:
    what = f"event {row['sequence']} of the incident {incident}"
    with kept(what):
        if bytes(row["digest"]) != _digest(incident, row["sequence"], row):
            raise ValueError("it says something else than its digest is of")
        data = json.loads(row["data"])
        if not isinstance(data, dict):
            raise ValueError("its data is no object")
        return Event(
            kind=word(EventKind, row["kind"], what),
            at=float(row["at"]),
            sequence=int(row["sequence"]),
            step=None if row["step"] is None else word(Step, row["step"], what),
            action=row["action"],
            ending=None if row["ending"] is None else word(Ending, row["ending"], what),
            note=row["note"],
            by=row["by"],
            data=data,
        )


def _digest(incident: str, sequence: int, row: Any) -> bytes:
    said = [incident, sequence, *(row[name] for name in _COLUMNS[1:-1])]
    return hashlib.sha256(json.dumps(said).encode()).digest()
