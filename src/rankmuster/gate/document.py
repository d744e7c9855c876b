"""A release's record as JSON (schema `rankmuster.release/1`), sealed, and read back without trust.

The seal is a hash over all of the rest, in a form that any JSON library makes (keys sorted, no blanks, ASCII). It
tells of accidents and of edits; it is no signature. Who must be able to prove who wrote a record keeps the folder in a
version control whose commits are signed, or signs the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from rankmuster.model.digest import ascii_digest
from rankmuster.model.plain_json import Bounds, NotPlain, from_plain, to_plain
from rankmuster.model.release import CHECK_SCHEMA, SCHEMA, Checklist, ReleaseRecord
from rankmuster.model.strict_json import KeyTwice, NotStrict, strict_object

BOUNDS = Bounds(text=32_768, members=4096)
"""Of one value: Kubernetes bounds a condition's message to as much. What is longer is refused before it is written
(`TooLong`): a setting that was cut would not be the setting."""
MOST_BYTES = 8 << 20
"""Of one record: a checklist of a thousand nodes has some 100 KiB."""
HASH = "hash"
_T = TypeVar("_T")


class NotARecord(Exception):
    """The bytes are no record of a release that can be read; the message says what is wrong."""


class Tampered(NotARecord):
    """They are a record, and not the one that was written."""


class TooLong(Exception):
    """A value is longer than a record keeps; the message says which."""


def plain(record: ReleaseRecord) -> dict[str, Any]:
    """As values of JSON, `schema` first. Raises TooLong."""
    return {"schema": SCHEMA, **_whole(record)}


def checklist_plain(checklist: Checklist) -> dict[str, Any]:
    """A checklist alone (`rankmuster.gate/1`), with whether it passed. Raises TooLong."""
    return {"schema": CHECK_SCHEMA, "passed": checklist.passed, **_whole(checklist)}


def seal(record: ReleaseRecord) -> ReleaseRecord:
    """The record with the hash over everything else in it. Raises TooLong."""
    return replace(record, hash=_digest(plain(record)))


def render(record: ReleaseRecord) -> str:
    """JSON to keep, ASCII, ending with a newline."""
    return json.dumps(plain(record), indent=1, allow_nan=False) + "\n"


def read(data: bytes | str) -> ReleaseRecord:
    """The record whose hash is right. Raises NotARecord; of one that was changed, Tampered."""
    return of_plain(_values(data))


def of_plain(document: Mapping[str, Any]) -> ReleaseRecord:
    """The same of values that JSON gave. Raises NotARecord, Tampered."""
    schema = document.get("schema")
    if schema != SCHEMA:
        raise NotARecord(f"its schema is {str(schema)[:60]!r}, and this version reads {SCHEMA}")
    said = document.get(HASH)
    try:
        made = _digest(document)
    except (ValueError, TypeError, RecursionError) as error:
        raise NotARecord(f"it cannot be hashed ({str(error)[:200]})") from None
    if said != made:
        raise Tampered(
            f"it is not as it was written: its hash says {str(said)[:19]}..., its content {made[:19]}...; restore the "
            "record from its source, and find out who changed it"
        )
    return _made(ReleaseRecord, document)


def _made(kind: type[_T], document: Mapping[str, Any]) -> _T:
    try:
        return from_plain(kind, document, BOUNDS)
    except NotPlain as error:
        raise NotARecord(f"it is no whole record: {error}") from None


def _values(data: bytes | str) -> dict[str, Any]:
    try:
        return strict_object(data, MOST_BYTES)
    except KeyTwice as error:
        raise Tampered(str(error)) from None
    except NotStrict as error:
        raise NotARecord(str(error)) from None


def _digest(document: Mapping[str, Any]) -> str:
    return ascii_digest({key: value for key, value in document.items() if key != HASH})


def _whole(value: Any) -> dict[str, Any]:
    """Without anything cut. What the record says must be what it was given."""
    found = to_plain(value, BOUNDS)
    wide = Bounds(text=1 << 62, members=1 << 62)
    if found != to_plain(value, wide):
        raise TooLong(_longest(to_plain(value, wide)))
    return found


def _longest(value: Any, place: str = "") -> str:
    if isinstance(value, str) and len(value) > BOUNDS.text:
        return f"{place} has {len(value)} characters; a record keeps {BOUNDS.text}"
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, (dict, list)) and len(value) > BOUNDS.members:
        return f"{place} has {len(value)} members; a record keeps {BOUNDS.members}"
    for key, one in parts:
        if said := _longest(one, f"{place}.{key}" if place else str(key)):
            return said
    return ""
