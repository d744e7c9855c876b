"""Whether an admission's answer is as it was written: its hash is over everything else in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rankmuster.model.admission import SCHEMA
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
    if len(data) > MOST_BYTES:
        raise NotARecord(f"it has more than {MOST_BYTES >> 20} MiB, which no record has")
    try:
        document = json.loads(data, object_pairs_hook=_once, parse_constant=_no_number)
    except _Twice as error:
        raise Changed(f"the key {str(error)!r} stands in it twice: no record is written so") from None
    except (ValueError, RecursionError) as error:
        raise NotARecord(f"it is no whole JSON ({str(error)[:200]}); copy it again") from None
    if not isinstance(document, dict):
        raise NotARecord("it is JSON, and no object")
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


class _Twice(ValueError):
    """A key that an object has twice: readers would differ in which one they take."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        raise _Twice(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")
