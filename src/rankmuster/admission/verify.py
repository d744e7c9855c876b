"""Whether an admission's answer is as it was written: its hash is over everything else in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rankmuster.model.admission import SCHEMA
from rankmuster.model.strict_json import KeyTwice, NotStrict, strict_object
from rankmuster.report.admission_json import HASH, digest

MOST_BYTES = 64 << 20
"""Of one record: eight GPUs with every iteration of three runs have some MB."""


class NotARecord(Exception):
    """The bytes are no admission record that can be read; the message says what is wrong."""


class Changed(NotARecord):
    """They are a record, and not the one that was written."""


@dataclass(frozen=True, slots=True)
class Verified:
    """`document`: the record as values of JSON."""

    hash: str
    decision: str
    nodes: tuple[str, ...]
    document: dict[str, Any]


def verify(data: bytes) -> Verified:
    """The record whose hash is right. Raises NotARecord, of one that was changed Changed."""
    try:
        document = strict_object(data, MOST_BYTES)
    except KeyTwice as error:
        raise Changed(str(error)) from None
    except NotStrict as error:
        raise NotARecord(str(error)) from None
    schema = document.get("schema")
    if schema != SCHEMA:
        raise NotARecord(f"its schema is {str(schema)[:60]!r}, and this version reads {SCHEMA}")
    said = document.get(HASH)
    try:
        made = digest(document)
    except (ValueError, RecursionError) as error:
        raise NotARecord(f"it cannot be hashed ({error})") from None
    if said != made:
        raise Changed(f"it is not as it was written: its hash says {str(said)[:19]}..., its content {made[:19]}...")
    nodes = document.get("nodes")
    named = tuple(str(node) for node in nodes) if isinstance(nodes, list) else ()
    return Verified(made, str(document.get("decision")), named, document)
