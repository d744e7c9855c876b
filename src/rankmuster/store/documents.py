"""Fingerprints and admission records: kept as the bytes that they are, found by the facts in them, never changed."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, is_dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, func, or_, select, update

from rankmuster.model.admission import AdmissionRecord
from rankmuster.model.fingerprint import KIN_FIELDS, Fingerprint
from rankmuster.model.unknown import Unknown
from rankmuster.report.history_words import when
from rankmuster.store.damage import stored
from rankmuster.store.errors import Conflict, Refused
from rankmuster.store.plain import settings_text, sound
from rankmuster.store.schema import admission_table, admitted_table, class_table, fingerprint_table
from rankmuster.store.stored import StoredAdmission, StoredFingerprint
from rankmuster.store.write_runs import class_numbers, insert_new

_CLASS_FIELDS = (*KIN_FIELDS.values(), "kin_hash")
"""What a class hash is over besides the settings (model/fingerprint.py)."""


def put_fingerprint(connection: Connection, fingerprint: Fingerprint, document: bytes) -> bool:
    """See `History.put_fingerprint`."""
    if not math.isfinite(fingerprint.taken_at):
        raise Refused(
            f"the fingerprint of {fingerprint.host or 'this node'} does not say when it was taken (takenAt), and "
            "cannot be stored: later ones could not be told from earlier ones; captured text has no time, give it with "
            "`rankmuster fingerprint --from ... --taken-at`"
        )
    stored = StoredFingerprint(
        host=fingerprint.host,
        taken_at=float(fingerprint.taken_at),
        node_hash=_known(fingerprint.node_hash),
        class_hash=_known(fingerprint.class_hash),
        kin_hash=_known(fingerprint.kin_hash),
        topology_hash=_known(fingerprint.topology_hash),
        document=document,
        gpu_model=_known(fingerprint.gpu_model),
        gpu_count=fingerprint.gpu_count if isinstance(fingerprint.gpu_count, int) else None,
    )
    if stored.class_hash is not None and stored.kin_hash is not None:
        content = {field: _plain(getattr(fingerprint, field)) for field in _CLASS_FIELDS}
        definition = json.dumps(content, sort_keys=True)
        define_class(connection, stored.class_hash, stored.kin_hash, settings_text(fingerprint.settings), definition)
    return put_stored_fingerprint(connection, stored)


def put_stored_fingerprint(connection: Connection, stored: StoredFingerprint) -> bool:
    """Stores a document once; False where it is there. Raises Conflict for another one of the same node and time."""
    identity = _identity(stored)
    row = {
        "identity": identity,
        "host": None if stored.host is None else sound(stored.host),
        "taken_at": stored.taken_at,
        "node_hash": stored.node_hash,
        "class_hash": stored.class_hash,
        "kin_hash": stored.kin_hash,
        "topology_hash": stored.topology_hash,
        "gpu_model": stored.gpu_model,
        "gpu_count": stored.gpu_count,
        "document": stored.document,
    }
    new = connection.execute(insert_new(connection, fingerprint_table).returning(fingerprint_table.c.id), row).first()
    if new is not None:
        return True
    known = select(fingerprint_table.c.document).where(fingerprint_table.c.identity == identity)
    if bytes(connection.execute(known).scalar_one()) != stored.document:
        raise Conflict(
            f"the fingerprint of {stored.host or (stored.node_hash or 'this node')[:20]} taken at "
            f"{when(stored.taken_at)} UTC is stored with other content, and that never changes: the file "
            "was edited, or two nodes share a hash"
        )
    return False


def read_fingerprints(
    connection: Connection,
    *,
    node: str | None = None,
    class_hash: str | None = None,
    at: float | None = None,
    newest_only: bool = False,
) -> tuple[StoredFingerprint, ...]:
    """Fingerprints, oldest first. `node`: a node hash or a host; `at`: not taken later."""
    table = fingerprint_table.c
    columns = (table.host, table.taken_at, table.node_hash, table.class_hash, table.kin_hash, table.topology_hash)
    query = select(*columns, table.document, table.gpu_model, table.gpu_count)
    if node is not None:
        query = query.where(or_(table.node_hash == node, table.host == node))
    if class_hash is not None:
        query = query.where(table.class_hash == class_hash)
    if at is not None:
        query = query.where(table.taken_at <= at)
    if newest_only:
        query = query.order_by(table.taken_at.desc(), table.id.desc()).limit(1)
    else:
        query = query.order_by(table.taken_at, table.id)
    with stored("a fingerprint"):
        return tuple(_fingerprint(row) for row in connection.execute(query))


def _fingerprint(row: Any) -> StoredFingerprint:
    count = None if row[8] is None else int(row[8])
    return StoredFingerprint(row[0], float(row[1]), row[2], row[3], row[4], row[5], bytes(row[6]), row[7], count)


def count_topologies(connection: Connection, gpu_model: str, gpu_count: int) -> dict[str, int]:
    """See `History.topologies`."""
    table = fingerprint_table.c
    query = (
        select(table.topology_hash, func.count(table.node_hash.distinct()))
        .where(table.gpu_model == gpu_model, table.gpu_count == gpu_count)
        .where(table.topology_hash.is_not(None), table.node_hash.is_not(None))
        .group_by(table.topology_hash)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def put_admission(connection: Connection, record: AdmissionRecord, document: bytes) -> bool:
    """See `History.put_admission`."""
    class_hash = record.fingerprint.get("class_hash", "")
    stored = StoredAdmission(
        hash=record.hash,
        decision=record.decision.value,
        nodes=record.nodes,
        class_hash=class_hash if class_hash and not class_hash.startswith("unknown") else None,
        profile=record.profile,
        started_at=float(record.started_at),
        ended_at=float(record.ended_at),
        document=document,
    )
    return put_stored_admission(connection, stored)


def put_stored_admission(connection: Connection, stored: StoredAdmission) -> bool:
    """Stores a record once; False where it is there."""
    if not stored.hash:
        raise Refused("the admission record has no hash; it cannot be stored")
    row = {
        "hash": stored.hash,
        "decision": stored.decision,
        "nodes": json.dumps([sound(node) for node in stored.nodes]),
        "class_hash": stored.class_hash,
        "profile": sound(stored.profile),
        "started_at": stored.started_at,
        "ended_at": stored.ended_at,
        "document": stored.document,
    }
    new = connection.execute(insert_new(connection, admission_table).returning(admission_table.c.id), row).first()
    if new is None:
        known = select(admission_table.c.document).where(admission_table.c.hash == stored.hash)
        if bytes(connection.execute(known).scalar_one()) != stored.document:
            raise Conflict(f"the admission {stored.hash[:20]} is stored with other content; the record was edited")
        return False
    nodes = [{"admission_id": new[0], "node": sound(node)} for node in dict.fromkeys(stored.nodes)]
    if nodes:
        connection.execute(insert_new(connection, admitted_table), nodes)
    return True


def read_admissions(
    connection: Connection, *, node: str | None = None, limit: int | None = None
) -> tuple[StoredAdmission, ...]:
    """See `History.admissions`."""
    table = admission_table.c
    query: Select[Any] = select(table.hash, table.decision, table.nodes, table.class_hash, table.profile).add_columns(
        table.started_at, table.ended_at, table.document
    )
    if node is not None:
        named = and_(admitted_table.c.admission_id == table.id, admitted_table.c.node == node)
        query = query.join(admitted_table, named)
    rows = connection.execute(query.order_by(table.started_at.desc(), table.id.desc()).limit(limit))
    with stored("an admission"):
        return tuple(_admission(row) for row in rows)


def _admission(row: Any) -> StoredAdmission:
    nodes = tuple(json.loads(row[2]))
    return StoredAdmission(row[0], row[1], nodes, row[3], row[4], float(row[5]), float(row[6]), bytes(row[7]))


def define_class(connection: Connection, name: str, kin: str, settings: str, definition: str) -> None:
    """Keeps what a class hash is over (`settings`, `definition`: JSON). Raises Conflict where that is other content."""
    class_numbers(connection, {name: (kin, settings)})
    row = class_table.c.class_hash == name
    # the first one wins, and both writers then see it
    first = func.coalesce(class_table.c.definition, definition)
    connection.execute(update(class_table).where(row).values(definition=first))
    stored = connection.execute(select(class_table.c.definition).where(row)).scalar_one()
    if stored != definition:
        known, now = json.loads(stored), json.loads(definition)
        differing = ", ".join(field for field in _CLASS_FIELDS if known.get(field) != now.get(field))
        raise Conflict(
            f"the class {name[:20]} is stored with other content ({differing}): a hash names one thing; the "
            "fingerprint was edited or comes from another version of rankmuster, and was not stored"
        )


def _identity(stored: StoredFingerprint) -> str:
    who = stored.node_hash or stored.host
    what = f"{who}\n{stored.taken_at!r}".encode("utf-8", "backslashreplace") if who else stored.document
    return hashlib.sha256(what).hexdigest()


def _known(value: str | Unknown) -> str | None:
    return value if isinstance(value, str) else None


def _plain(value: Any) -> Any:
    """As JSON, the same for what is the same: 400 and 400.0, and NICs in whatever order they were found."""
    if isinstance(value, tuple):
        listed = [_plain(one) for one in value]
        return sorted(listed, key=json.dumps) if any(isinstance(one, dict) for one in listed) else listed
    if is_dataclass(value) and not isinstance(value, (type, Unknown)):
        return {name: _plain(part) for name, part in asdict(value).items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return f"unknown: {value.reason}" if isinstance(value, Unknown) else value
