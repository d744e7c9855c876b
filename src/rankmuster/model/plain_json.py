"""Frozen dataclasses as plain values of JSON, and back, checked, by their annotations. Pure.

Enums are their values; a field's name is its own without a trailing `_`, or what `called` gives it. Keys that nobody
knows (a later version's) are passed over, missing ones take their defaults, and what has the wrong type is refused with
its place: a file may be anybody's by the time it is read. Own code, since the watch reads and writes these for days,
and a library for it would take a sixth of the memory that the whole of it may have.

Known annotations: bool, int, float, str, Path, enums, literals, dataclasses, `X | None`, unions of texts and numbers,
unions of dataclasses whose field `kind` tells them apart, tuple[X, ...], dict[str, X] and Mapping[str, X]; Any is kept
as it is.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

MOST_INTEGER = 1 << 63

_CALLED = "json"

_T = TypeVar("_T")


class NotPlain(Exception):
    """The values are not those of the dataclass; the message says where."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """`text`: characters of one text; `members`: of one list or object. Longer ones are cut when written."""

    text: int
    members: int


def called(name: str) -> dict[str, str]:
    """The metadata of a field that JSON calls `name` (one that is no name in Python: "from")."""
    return {_CALLED: name}


def to_plain(value: Any, bounds: Bounds) -> dict[str, Any]:
    """A dataclass as an object, its numbers finite: what is not becomes null, or 0 where there has to be a number."""
    found: dict[str, Any] = _writer_of(value, bounds)(value)
    return found


def from_plain(kind: type[_T], raw: object, bounds: Bounds) -> _T:
    """The dataclass in values that JSON gave. Raises NotPlain."""
    wanted: Any = kind
    found: _T = _reader(wanted, bounds)(raw, "")
    return found


def utf8(text: str) -> str:
    """The text as UTF-8 can have it: undecodable bytes of a file's name (lone surrogates) as backslash escapes, since
    many readers of JSON refuse the whole document for one."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def keys(kind: type) -> tuple[str, ...]:
    """What JSON calls the fields of a dataclass, in order."""
    return tuple(_key(field) for field in fields(kind))


def _key(field: Any) -> str:
    return str(field.metadata.get(_CALLED) or field.name.removesuffix("_"))


def _writer_of(value: Any, bounds: Bounds) -> Callable[[Any], Any]:
    kind: Any = type(value)
    return _writer(kind, bounds)


def _choices(kind: Any) -> tuple[bool, tuple[Any, ...]]:
    """(whether it may be None, what else it may be)."""
    if get_origin(kind) in (Union, types.UnionType):
        members = get_args(kind)
        return type(None) in members, tuple(one for one in members if one is not type(None))
    return False, (kind,)


@cache
def _writer(kind: Any, bounds: Bounds) -> Callable[[Any], Any]:
    """How a value of this type is written."""
    optional, choices = _choices(kind)
    if optional:
        inner: Any = Union[choices]  # noqa: UP007  # which they are is known here only
        write, number = _writer(inner, bounds), choices == (float,)
        return lambda value: None if value is None or (number and not math.isfinite(value)) else write(value)
    if len(choices) > 1:
        return lambda value: _writer_of(value, bounds)(value)
    if get_origin(kind) is tuple:
        write = _writer(get_args(kind)[0], bounds)
        return lambda value: [write(one) for one in value[: bounds.members]]
    if get_origin(kind) in (dict, Mapping):
        write = _writer(get_args(kind)[1], bounds)
        return lambda value: {key: write(one) for key, one in list(value.items())[: bounds.members]}
    if kind is float:
        return lambda value: float(value) if math.isfinite(value) else 0.0
    if kind is int:
        return operator.index
    if kind is str or (isinstance(kind, type) and issubclass(kind, Path)):
        return lambda value: utf8(str(value)[: bounds.text])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value: value.value
    if hasattr(kind, "__dataclass_fields__"):
        hints = get_type_hints(kind)
        plan = [(field.name, _key(field), _writer(hints[field.name], bounds)) for field in fields(kind)]
        return lambda value: {key: write(getattr(value, name)) for name, key, write in plan}
    return lambda value: value


@cache
def _reader(kind: Any, bounds: Bounds) -> Callable[[Any, str], Any]:
    """How a value of this type is read; its second argument is the place, for messages."""
    optional, choices = _choices(kind)
    if optional:
        inner: Any = Union[choices]  # noqa: UP007  # as above
        read = _reader(inner, bounds)
        return lambda raw, place: None if raw is None else read(raw, place)
    if len(choices) > 1:
        return _one_of_several(choices, bounds)
    if get_origin(kind) is tuple:
        read = _reader(get_args(kind)[0], bounds)
        return lambda raw, place: _members(raw, place, read, bounds)
    if get_origin(kind) in (dict, Mapping):
        read = _reader(get_args(kind)[1], bounds)
        return lambda raw, place: _entries(raw, place, read, bounds)
    if kind is Any:
        return lambda raw, _: raw
    if get_origin(kind) is Literal:
        return lambda raw, place: _literal(raw, place, get_args(kind))
    if hasattr(kind, "__dataclass_fields__"):
        hints = get_type_hints(kind)
        plan = [
            (
                field.name,
                _key(field),
                _reader(hints[field.name], bounds),
                field.default is MISSING and field.default_factory is MISSING,
            )
            for field in fields(kind)
        ]
        return lambda raw, place: kind(**_values(raw, place, plan))
    if kind is float:
        return _number
    if kind is int:
        return _integer
    if kind is bool:
        return _truth
    if kind is str:
        return lambda raw, place: _text(raw, place)[: bounds.text]
    if isinstance(kind, type) and issubclass(kind, Path):
        return lambda raw, place: Path(_text(raw, place))
    return lambda raw, place: _member_of(kind, raw, place)


def _one_of_several(choices: tuple[Any, ...], bounds: Bounds) -> Callable[[Any, str], Any]:
    """Dataclasses are told apart by their `kind`, everything else by the type that JSON gave it."""
    if all(hasattr(one, "__dataclass_fields__") for one in choices):
        by_kind = {get_args(get_type_hints(one)["kind"])[0]: _reader(one, bounds) for one in choices}

        def read(raw: Any, place: str) -> Any:
            said = raw.get("kind") if isinstance(raw, Mapping) else None
            if not isinstance(said, str) or said not in by_kind:
                raise _wrong(said, f"{place}.kind", f"one of {', '.join(by_kind)}")
            return by_kind[said](raw, place)

        return read
    readers = {one: _reader(one, bounds) for one in choices}

    def read_scalar(raw: Any, place: str) -> Any:
        if type(raw) not in readers:
            raise _wrong(raw, place, " or ".join(one.__name__ for one in choices))
        return readers[type(raw)](raw, place)

    return read_scalar


def _members(raw: object, place: str, read: Callable[[Any, str], Any], bounds: Bounds) -> tuple[Any, ...]:
    if not isinstance(raw, list) or len(raw) > bounds.members:
        raise _wrong(raw, place, f"a list of at most {bounds.members}")
    return tuple(read(one, f"{place}[{number}]") for number, one in enumerate(raw))


def _entries(raw: object, place: str, read: Callable[[Any, str], Any], bounds: Bounds) -> dict[str, Any]:
    if not isinstance(raw, Mapping) or len(raw) > bounds.members:
        raise _wrong(raw, place, f"an object with at most {bounds.members} keys")
    return {_text(key, place): read(one, f"{place}.{key}") for key, one in raw.items()}


def _values(raw: object, place: str, plan: list[tuple[str, str, Callable[[Any, str], Any], bool]]) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise _wrong(raw, place, "an object")
    found: dict[str, Any] = {}
    for name, key, read, needed in plan:
        where = f"{place}.{key}" if place else key
        if key in raw:
            found[name] = read(raw[key], where)
        elif needed:
            raise NotPlain(f"it has no {where}")
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


def _truth(raw: object, place: str) -> bool:
    if isinstance(raw, bool):
        return raw
    raise _wrong(raw, place, "true or false")


def _text(raw: object, place: str) -> str:
    if isinstance(raw, str):
        return raw
    raise _wrong(raw, place, "a text")


def _literal(raw: object, place: str, allowed: tuple[Any, ...]) -> Any:
    if isinstance(raw, str) and raw in allowed:
        return raw
    raise _wrong(raw, place, f"one of {', '.join(allowed)}")


def _member_of(kind: Any, raw: object, place: str) -> Any:
    try:
        return kind(raw)
    except (ValueError, TypeError):
        words = ", ".join(str(one.value) for one in kind)
        raise _wrong(raw, place, f"one of {words}") from None


def _wrong(raw: object, place: str, wanted: str) -> NotPlain:
    shown = type(raw).__name__ if isinstance(raw, (dict, list)) else repr(raw)[:40]
    return NotPlain(f"{place or 'the whole'} is {shown}, not {wanted}")
