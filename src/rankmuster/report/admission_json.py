"""An admission record as JSON (schema `rankmuster.admission/1`): what is stored, hashed and sent on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from rankmuster.model import benchmark_document
from rankmuster.model.admission import SCHEMA, AdmissionRecord
from rankmuster.model.digest import ascii_digest
from rankmuster.model.plain_json import utf8

HASH = "hash"


def to_plain(record: AdmissionRecord) -> dict[str, Any]:
    """The record as values of JSON, `schema` first; numbers that are none are null. Runs have bench's own form."""
    runs = [benchmark_document.plain(run) for run in record.runs]
    return {"schema": SCHEMA, **_plain(replace(record, runs=())), "runs": runs}


def render(record: AdmissionRecord) -> str:
    """JSON to read and to keep, ASCII only, ending with a newline."""
    return json.dumps(to_plain(record), indent=1, allow_nan=False) + "\n"


def digest(document: Mapping[str, Any]) -> str:
    """`sha256:` over the canonical form of a record without its hash: keys sorted, no blanks, ASCII."""
    return ascii_digest({key: value for key, value in document.items() if key != HASH})


def seal(record: AdmissionRecord) -> AdmissionRecord:
    """The record with the hash over everything else in it."""
    return replace(record, hash=digest(to_plain(record)))


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {utf8(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return utf8(str(value))
