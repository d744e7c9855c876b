"""A `Snapshot` as plain values of JSON (schema `rankmuster.watch/1`), and back, checked. Pure.

The same names as in `snapshot`, enums as their values, `class_` as `class`. Fields of later versions are passed over,
missing ones take their defaults; what has the wrong type is refused with its place. The file may be anybody's by the
time it is read, so nothing in it is trusted to be small.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from rankmuster.watch.snapshot import SCHEMA, Snapshot

MOST_TEXT = 2_000
"""Characters of one text: a reason is a sentence or two."""

MOST_MEMBERS = 1_024
"""Members of one list: ranks on a node are 8 to 64, of a group at most a few thousand."""

MOST_INTEGER = 1 << 63


class NotASnapshot(Exception):
    """The values are not those of a snapshot; the message says where."""


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """As plain values, all finite: what is not a number becomes null, or 0 where there has to be one."""
    found = _writer(Snapshot)(snapshot)
    assert isinstance(found, dict)
    return {"schema": SCHEMA, **found}


def from_json(raw: object) -> Snapshot:
    """The snapshot in values that JSON gave. Raises NotASnapshot."""
    if not isinstance(raw, dict):
        raise NotASnapshot(f"it holds a {type(raw).__name__}, not an object")
    schema = raw.get("schema")
    if schema != SCHEMA:
        raise NotASnapshot(f"its schema is {str(schema)[:60]!r}; this version reads {SCHEMA!r}")
    found = _reader(Snapshot)(raw, "")
    assert isinstance(found, Snapshot)
    return found


def _name(field: str) -> str:
    return field.removesuffix("_")


@cache
def _writer(kind: Any) -> Callable[[Any], Any]:
    """How a value of this type is written."""
    optional, inner = _optional(kind)
    if optional:
        write, number = _writer(inner), inner is float
        return lambda value: None if value is None or (number and not math.isfinite(value)) else write(value)
    if get_origin(kind) is tuple:
        write = _writer(get_args(kind)[0])
        return lambda value: [write(one) for one in value[:MOST_MEMBERS]]
    if kind is float:
        return lambda value: float(value) if math.isfinite(value) else 0.0
    if kind is str:
        return lambda value: str(value)[:MOST_TEXT]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value: value.value
    if hasattr(kind, "__dataclass_fields__"):
        hints = get_type_hints(kind)
        plan = [(field.name, _name(field.name), _writer(hints[field.name])) for field in fields(kind)]
        return lambda value: {key: write(getattr(value, name)) for name, key, write in plan}
    return lambda value: value


def _optional(kind: Any) -> tuple[bool, Any]:
    if get_origin(kind) in (Union, types.UnionType):
        inner = [one for one in get_args(kind) if one is not type(None)]
        return True, inner[0]
    return False, kind


@cache
def _reader(kind: Any) -> Callable[[Any, str], Any]:
    """How a value of this type is read; its second argument is the place, for messages."""
    optional, inner = _optional(kind)
    if optional:
        read = _reader(inner)
        return lambda raw, place: None if raw is None else read(raw, place)
    if get_origin(kind) is tuple:
        read = _reader(get_args(kind)[0])
        return lambda raw, place: _members(raw, place, read)
    if hasattr(kind, "__dataclass_fields__"):
        hints = get_type_hints(kind)
        plan = [
            (field.name, _name(field.name), _reader(hints[field.name]), field.default is MISSING)
            for field in fields(kind)
        ]
        return lambda raw, place: kind(**_values(raw, place, plan))
    if kind is float:
        return _number
    if kind is int:
        return _integer
    if kind is str:
        return _text
    return lambda raw, place: _member_of(kind, raw, place)


def _members(raw: object, place: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    if not isinstance(raw, list) or len(raw) > MOST_MEMBERS:
        raise _wrong(raw, place, f"a list of at most {MOST_MEMBERS}")
    return tuple(read(one, f"{place}[{number}]") for number, one in enumerate(raw))


def _values(raw: object, place: str, plan: list[tuple[str, str, Callable[[Any, str], Any], bool]]) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise _wrong(raw, place, "an object")
    found: dict[str, Any] = {}
    for name, key, read, needed in plan:
        where = f"{place}.{key}" if place else key
        if key in raw:
            found[name] = read(raw[key], where)
        elif needed:
            raise NotASnapshot(f"it has no {where}")
    return found


def _number(raw: object, place: str) -> float:
    try:
        if isinstance(raw, (int, float)) and not isinstance(raw, bool) and math.isfinite(raw):
            return float(raw)
    except OverflowError:
        pass
    raise _wrong(raw, place, "a number")


def _integer(raw: object, place: str) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool) and -MOST_INTEGER < raw < MOST_INTEGER:
        return raw
    raise _wrong(raw, place, "a whole number")


def _text(raw: object, place: str) -> str:
    if isinstance(raw, str):
        return raw[:MOST_TEXT]
    raise _wrong(raw, place, "a text")


def _member_of(kind: Any, raw: object, place: str) -> Any:
    try:
        return kind(raw)
    except ValueError:
        words = ", ".join(str(one.value) for one in kind)
        raise _wrong(raw, place, f"one of {words}") from None


def _wrong(raw: object, place: str, wanted: str) -> NotASnapshot:
    shown = type(raw).__name__ if isinstance(raw, (dict, list)) else repr(raw)[:40]
    return NotASnapshot(f"{place or 'the whole'} is {shown}, not {wanted}")
