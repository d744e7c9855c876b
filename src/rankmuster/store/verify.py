"""Every run of a history against its record: the whole of it, for which a decision has no time."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select

from rankmuster.model.benchmark import HistoryRun
from rankmuster.store.errors import Damaged
from rankmuster.store.history import History
from rankmuster.store.query import among
from rankmuster.store.read_runs import each_run
from rankmuster.store.records import record_of
from rankmuster.store.schema import run_table


@dataclass(frozen=True, slots=True)
class NotAsStored:
    """A run that says something else than when it was stored. `number`: the table's; `why`: in words."""

    number: int
    record: str
    why: str


@dataclass(frozen=True, slots=True)
class Verified:
    """`runs`: how many there are; `changed`: those that are not as they were stored."""

    runs: int
    changed: tuple[NotAsStored, ...]


def verify(history: History) -> Verified:
    """Makes every run's record anew from what is stored. Raises HistoryError."""
    with history.reading("verifying the runs") as connection:
        return _verified(connection)


def remove_changed(history: History) -> Verified:
    """The same, and removes the runs that were changed, with their results. Raises HistoryError."""
    with history.writing("removing changed runs") as connection:
        found = _verified(connection)
        numbers = [one.number for one in found.changed]
        connection.execute(delete(run_table).where(among(connection, run_table.c.id, numbers)))
        return found


def _verified(connection: Connection) -> Verified:
    seen: set[int] = set()
    found: list[NotAsStored] = []
    for part in each_run(connection):
        for number, record, run in part:
            seen.add(number)
            why = str(run).partition(":")[0] if isinstance(run, Damaged) else _differing(run)
            if why:
                found.append(NotAsStored(number, record, why))
    total = connection.execute(select(func.count()).select_from(run_table)).scalar() or 0
    if total != len(seen):  # joined with nothing: no question ever sees these
        lost = connection.execute(select(run_table.c.id, run_table.c.record)).all()
        why = "the class, profile, node or choices that it belongs to are gone"
        found += [NotAsStored(row[0], str(row[1]), why) for row in lost if row[0] not in seen]
    return Verified(total, tuple(found))


def _differing(run: HistoryRun) -> str:
    try:
        made = record_of(run)
    except ValueError as error:
        return f"a number of it is none ({error})"
    return "" if made == run.record else f"what is stored makes another record ({made[:19]})"
