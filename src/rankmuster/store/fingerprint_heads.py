"""Which fingerprints are stored, without their documents: with one for every admission a fleet has gigabytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import select

from rankmuster.store.damage import stored
from rankmuster.store.history import History
from rankmuster.store.query import among
from rankmuster.store.schema import fingerprint_table


@dataclass(frozen=True, slots=True)
class FingerprintHead:
    """`number`: by which `documents` finds it. Hashes that were not known are None; `taken_at`: unix seconds."""

    number: int
    host: str | None
    taken_at: float
    node_hash: str | None
    class_hash: str | None
    topology_hash: str | None


def heads(history: History) -> tuple[FingerprintHead, ...]:
    """Of all nodes, oldest first. Raises HistoryError."""
    table = fingerprint_table.c
    columns = (table.id, table.host, table.taken_at, table.node_hash, table.class_hash, table.topology_hash)
    with history.reading("listing fingerprints") as connection:
        rows = connection.execute(select(*columns).order_by(table.taken_at, table.id))
        with stored("a fingerprint"):
            return tuple(FingerprintHead(*row[:2], float(row[2]), *row[3:]) for row in rows)


def documents(history: History, numbers: Iterable[int]) -> dict[int, bytes]:
    """Number -> the document's bytes, of those that are there. Raises HistoryError."""
    table = fingerprint_table.c
    with history.reading("reading fingerprints") as connection:
        query = select(table.id, table.document).where(among(connection, table.id, sorted(numbers)))
        with stored("a fingerprint"):
            return {row[0]: bytes(row[1]) for row in connection.execute(query)}
