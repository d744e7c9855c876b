"""A node's path out of the fingerprint that was made from it: a stored fingerprint can be checked like a live node."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from rankmuster.baseline.fingerprint.made_from import UNLIMITED
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.node_path import Matrix, NodePath
from rankmuster.model.unknown import Unknown


class NotMadeOfAPath(Exception):
    """The fingerprint's `made_from` is not that of a node's path; the message says where."""


def path_of(fingerprint: Fingerprint) -> NodePath:
    """The path with everything that was read. Raises NotMadeOfAPath."""
    content = {"host": fingerprint.host, "taken_at": fingerprint.taken_at, **fingerprint.made_from}
    found = _value(NodePath, content, "made_from")
    assert isinstance(found, NodePath)
    return found


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(kind: Any, raw: Any, place: str) -> Any:
    """`raw` as the annotation wants it; plain values are taken as they are."""
    if isinstance(raw, Unknown):
        return raw
    choices = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if raw is None and type(None) in choices:
        return None
    kind = next((one for one in choices if one not in (type(None), Unknown)), choices[0])
    if kind is Matrix:
        return _matrix(raw, place)
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, raw, place)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), raw, place)
    if isinstance(raw, Mapping):
        inner = get_args(kind)[1] if len(get_args(kind)) == 2 else object
        return {str(key): _value(inner, one, f"{place}/{key}") for key, one in raw.items()}
    if raw == UNLIMITED and float in choices:
        return math.inf
    if kind is float and isinstance(raw, int) and not isinstance(raw, bool):
        return float(raw)
    if isinstance(kind, type) and kind in (str, int, float, bool) and not isinstance(raw, kind):
        raise NotMadeOfAPath(f"{place} is {type(raw).__name__}, not {kind.__name__}")
    return raw


def _dataclass(kind: type, raw: Any, place: str) -> Any:
    if not isinstance(raw, Mapping):
        raise NotMadeOfAPath(f"{place} is {type(raw).__name__}, not a mapping")
    values = {}
    for field in fields(kind):
        if field.name in raw:
            values[field.name] = _value(_hints(kind)[field.name], raw[field.name], f"{place}/{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise NotMadeOfAPath(f"{place} has no {field.name}")
    return kind(**values)


def _tuple(inside: tuple[Any, ...], raw: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(raw, (list, tuple)):
        raise NotMadeOfAPath(f"{place} is {type(raw).__name__}, not a list")
    if len(inside) == 2 and inside[1] is Ellipsis:
        return tuple(_value(inside[0], one, f"{place}/{number}") for number, one in enumerate(raw))
    if len(inside) != len(raw):
        raise NotMadeOfAPath(f"{place} has {len(raw)} values, not {len(inside)}")
    return tuple(_value(kind, one, f"{place}/{at}") for at, (kind, one) in enumerate(zip(inside, raw, strict=True)))


def _matrix(raw: Any, place: str) -> Matrix:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("rows"), Mapping):
        raise NotMadeOfAPath(f"{place} is no matrix")
    cells = {
        (str(row), str(column)): str(word)
        for row, columns in raw["rows"].items()
        if isinstance(columns, Mapping)
        for column, word in columns.items()
    }
    nics = raw.get("nics")
    named = {str(key): str(one) for key, one in nics.items()} if isinstance(nics, Mapping) else {}
    return Matrix(str(raw.get("kind")), cells, named)
