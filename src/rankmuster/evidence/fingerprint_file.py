"""A stored fingerprint, read back and checked (schema `rankmuster.fingerprint/1`), from anybody's file.

A fingerprint is immutable once it is written: history and admission rest on its hashes. A file whose content does not
make the hashes that stand in it is refused, with the parts that were changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.evidence.fingerprint_document import (
    BESIDE,
    FINGERPRINT_FIELDS,
    HASH,
    MADE_FROM,
    SECTIONS,
    decode,
    device_of,
    hash_of,
    sections_of,
)
from rankmuster.evidence.plain_yaml import YamlRefused, json_values, plain_values
from rankmuster.model.fingerprint import SCHEMA, Fingerprint
from rankmuster.model.unknown import Unknown

_FAMILY = "rankmuster.fingerprint/"
MOST_NAMED = 6
"""Changed parts that a refusal names."""


class FingerprintRefused(Exception):
    """It is no fingerprint, or not the one that was written; the message says what is wrong and where."""


def read_fingerprint(data: bytes) -> Fingerprint:
    """The fingerprint in the YAML or JSON that `report.fingerprint_yaml` wrote.

    Raises FingerprintRefused: no YAML, another schema, a missing or mistyped field, or content that was changed.
    """
    try:
        document = json_values(data) if data[:64].lstrip().startswith(b"{") else plain_values(data)
    except YamlRefused as refused:
        raise FingerprintRefused(f"no fingerprint can be read: {refused}") from None
    if not isinstance(document, dict):
        raise FingerprintRefused(f"no fingerprint: it holds {_kind(document)}, not a mapping with `schema: {SCHEMA}`")
    _check_schema(document)
    _check_hashes(document)
    return _fingerprint(document)


def _check_schema(document: Mapping[str, Any]) -> None:
    schema = document.get("schema")
    if schema == SCHEMA:
        return
    if isinstance(schema, str) and schema.startswith(_FAMILY):
        raise FingerprintRefused(
            f"its schema is {schema[:60]}, and this version reads {SCHEMA}: use a newer rankmuster"
        )
    raise FingerprintRefused(f"no fingerprint: its schema is {_kind(schema)}, not {SCHEMA}")


def _check_hashes(document: Mapping[str, Any]) -> None:
    said = document.get(SECTIONS)
    if not isinstance(said, dict) or not isinstance(document.get(HASH), str):
        raise FingerprintRefused(f"it lacks `{HASH}` or `{SECTIONS}`: cut short, or not written by rankmuster")
    made = sections_of(document)
    changed = [name for name in made if name in said and said[name] != made[name]]
    told = [("changed", changed), ("added", [n for n in made if n not in said])]
    told.append(("lost", [name for name in said if name not in made]))
    parts = [f"{word}: {_few(names)}" for word, names in told if names]
    if parts:
        raise FingerprintRefused(f"it is not as it was written ({'; '.join(parts)}); take the fingerprint anew")
    if hash_of(said) != document[HASH]:
        raise FingerprintRefused(
            f"it is not as it was written (`{HASH}` says {document[HASH][:20]}..., its parts make "
            f"{hash_of(said)[:20]}...); take the fingerprint anew"
        )


def _fingerprint(document: Mapping[str, Any]) -> Fingerprint:
    said = _mapping(document, "communicationFingerprint")
    host, taken = document.get("host"), document.get("takenAt")
    if host is not None and not isinstance(host, str):
        raise _wrong("host", host, "a text or null")
    if taken is not None and (isinstance(taken, bool) or not isinstance(taken, (int, float))):
        raise _wrong("takenAt", taken, "a number or null")
    values: dict[str, Any] = {"host": host, "taken_at": math.nan if taken is None else float(taken)}
    readers: dict[str, Callable[[str, Any], Any]] = {
        "gpuCount": _count,
        "networkDeviceSet": _devices,
        "nicOrder": _order,
        "settings": _settings,
    }
    for names, within, where in ((FINGERPRINT_FIELDS, said, "communicationFingerprint/"), (BESIDE, document, "")):
        for name, field in names.items():
            if name not in within:
                raise FingerprintRefused(f"it has no {where}{name}")
            value = decode(within[name])
            read: Callable[[str, Any], Any] = readers.get(name, _text)
            values[field] = value if isinstance(value, Unknown) else read(where + name, value)
    return Fingerprint(**values, made_from=decode(_mapping(document, MADE_FROM)))


def _mapping(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    if not isinstance(found, dict):
        raise _wrong(name, found, "a mapping")
    return found


def _text(place: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(place, value, "a text or {unknown: reason}")
    return value


def _count(place: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(place, value, "a count or {unknown: reason}")
    return value


def _order(place: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise _wrong(place, value, "a list or {unknown: reason}")
    return tuple(_count(place, one) for one in value)


def _settings(place: str, value: Any) -> dict[str, str | Unknown]:
    if not isinstance(value, dict):
        raise _wrong(place, value, "a mapping")
    return {name: one if isinstance(one, Unknown) else _text(f"{place}/{name}", one) for name, one in value.items()}


def _devices(place: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _wrong(place, value, "a list or {unknown: reason}")
    for one in value:
        if not isinstance(one, dict):
            raise _wrong(place, one, "a mapping with model, linkLayer, rateGbps, firmware and count")
        rate = one.get("rateGbps")
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, (int, float))):
            raise _wrong(f"{place}/rateGbps", rate, "a number or null")
        for name in ("model", "linkLayer"):
            _text(f"{place}/{name}", one.get(name))
        if one.get("firmware") is not None:
            _text(f"{place}/firmware", one["firmware"])
        _count(f"{place}/count", one.get("count"))
    return tuple(device_of(one) for one in value)


def _wrong(place: str, value: Any, wanted: str) -> FingerprintRefused:
    return FingerprintRefused(f"{place} is {_kind(value)}, not {wanted}")


def _kind(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return json.dumps(value, ensure_ascii=False)[:60]


def _few(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join([name[:60] for name in names[:MOST_NAMED]] + ([f"and {more} more"] if more > 0 else []))
