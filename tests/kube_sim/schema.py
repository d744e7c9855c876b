"""Whether an object is one of its kind: unknown fields, types, required, enum, pattern, bounds, defaults.

Kubernetes' own kinds are decoded (another type is 400, what is unknown is dropped or, asked to be strict, 400) and
their spec must have what it requires. Custom resources are held to their structural schema, as the real server does it:
prune, default, validate. Not done: CEL rules (x-kubernetes-validations), formats, oneOf and its like.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_sim.kinds import KindInfo
from kube_sim.problems import bad_request, invalid
from kube_sim.shapes import Shape, item_key, shape_of
from kube_sim.structural import check_definition
from kube_sim.values import copied

Object = dict[str, Any]
_LOOSE = {"serviceName"}
"""Required by the document, and not by the server."""


@dataclass
class Checked:
    """`obj`: without what is unknown, with defaults. `unknown`: paths that were dropped."""

    obj: Object
    unknown: list[str] = field(default_factory=list)


@dataclass
class _Walk:
    info: KindInfo
    whole: bool
    unknown: list[str] = field(default_factory=list)
    causes: list[tuple[str, str, str]] = field(default_factory=list)


def checked(info: KindInfo, obj: Object, check: str, *, whole: bool = True) -> Checked:
    """`check`: Ignore, Warn, Strict; empty: nothing is looked at. `whole`: not a part of an object, as applies give it.
    Raises ApiProblem 400 and 422."""
    if not check:
        return Checked(obj)
    version = str(obj.get("apiVersion", "")).rpartition("/")[2]
    shape = shape_of(info, version)
    if not shape.node or (info.custom and not info.schemas.get(version)):
        return Checked(obj)
    walk = _Walk(info, whole)
    made = _value(walk, obj, shape, "", required=info.custom)
    if walk.unknown and check == "Strict":
        words = ", ".join(f'unknown field "{one}"' for one in walk.unknown)
        start = "" if info.custom else f'{info.kind} in version "{version}" cannot be handled as a {info.kind}: '
        raise bad_request(f"{start}strict decoding error: {words}")
    if walk.causes:
        name = str((obj.get("metadata") or {}).get("name") or "")
        raise invalid(info.kind, info.group, name, walk.causes)
    if whole and info.kind == "CustomResourceDefinition":
        check_definition(made)
    return Checked(made, walk.unknown)


def _types(shape: Shape) -> set[str]:
    found = shape.node.get("type")
    return set(found) if isinstance(found, (list, tuple)) else {found} if found else set()


def _is(value: Any, kinds: set[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, int):
        return bool(kinds & {"integer", "number"})
    if isinstance(value, float):
        return "number" in kinds or ("integer" in kinds and value.is_integer())
    names: dict[type, str] = {str: "string", dict: "object", list: "array"}
    return names.get(type(value), "") in kinds


def _value(walk: _Walk, value: Any, shape: Shape, path: str, *, required: bool) -> Any:
    node = shape.node
    if node.get("x-kubernetes-int-or-string") or "oneOf" in node:
        return value
    if value is None and node.get("nullable"):
        return None
    kinds = _types(shape)
    if kinds and not _is(value, kinds):
        _wrong_type(walk, value, sorted(kinds - {"null"})[0], path)
        return value
    _bounds(walk, value, node, path)
    if isinstance(value, dict):
        return _object(walk, value, shape, path, required)
    if isinstance(value, list):
        below = [
            _value(walk, one, shape.item(), f"{path}[{place}]", required=required) for place, one in enumerate(value)
        ]
        _unique(walk, below, shape, path)
        return below
    return value


def _wrong_type(walk: _Walk, value: Any, kind: str, path: str) -> None:
    is_now = {str: "string", dict: "object", list: "array", bool: "boolean", int: "integer", float: "number"}
    found = "null" if value is None else is_now[type(value)]
    if walk.info.custom:
        told = f'Invalid value: "{found}": {path} in body must be of type {kind}: "{found}"'
        walk.causes.append((path, "FieldValueTypeInvalid", told))
        return
    raise bad_request(
        f'{walk.info.kind} in version "{walk.info.version}" cannot be handled as a {walk.info.kind}: json: cannot '
        f"unmarshal {found} into Go struct field {walk.info.kind}.{path} of type {kind}"
    )


def _object(walk: _Walk, value: Object, shape: Shape, path: str, required: bool) -> Object:
    node = shape.node
    properties = node.get("properties") or {}
    if not node:
        return value  # below what keeps unknown fields all is kept
    keeps = (
        bool(node.get("x-kubernetes-preserve-unknown-fields"))
        or "additionalProperties" in node
        or not (properties or walk.info.custom)
    )
    made: Object = {}
    for key, one in value.items():
        at = f"{path}.{key}" if path else key
        if key not in properties and not keeps:
            walk.unknown.append(at)
            continue
        below = shape.field(key)
        if one is None and not below.node.get("nullable") and key in properties:
            continue  # null of a field is as if it were not there
        inside = walk.info.custom or key != "status"
        made[key] = _value(walk, one, below, at, required=(required or key == "spec") and inside)
    if walk.info.custom and walk.whole and path.partition(".")[0] != "metadata":
        for key, one in properties.items():
            if key not in made and isinstance(one, Mapping) and one.get("default") is not None:
                made[key] = copied(one["default"])
                made[key] = _value(walk, made[key], shape.field(key), f"{path}.{key}", required=required)
    if walk.whole and required:
        for key in node.get("required") or ():
            if key not in made and key not in _LOOSE:
                walk.causes.append((f"{path}.{key}" if path else key, "FieldValueRequired", "Required value"))
    return made


def _bounds(walk: _Walk, value: Any, node: Mapping[str, Any], path: str) -> None:
    told = []
    if "enum" in node and value not in node["enum"]:
        some = ", ".join(json.dumps(one) for one in node["enum"] if one is not None)
        told.append(("FieldValueNotSupported", f"Unsupported value: {json.dumps(value)}: supported values: {some}"))
    if walk.info.custom:
        if isinstance(value, str):
            told += _of_text(value, node, path)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            told += _of_number(value, node, path)
        elif isinstance(value, (list, dict)):
            told += _of_many(value, node, path)
    walk.causes += [(path, reason, message) for reason, message in told]


def _bad(value: Any, path: str, why: str) -> tuple[str, str]:
    return "FieldValueInvalid", f"Invalid value: {json.dumps(value)}: {path} in body {why}"


def _of_text(value: str, node: Mapping[str, Any], path: str) -> list[tuple[str, str]]:
    told = []
    if "maxLength" in node and len(value) > node["maxLength"]:
        told.append(("FieldValueTooLong", f"Too long: may not be more than {node['maxLength']} bytes"))
    if "minLength" in node and len(value) < node["minLength"]:
        told.append(_bad(value, path, f"should be at least {node['minLength']} chars long"))
    if "pattern" in node and not re.search(node["pattern"], value):
        told.append(_bad(value, path, f"should match '{node['pattern']}'"))
    return told


def _of_number(value: float, node: Mapping[str, Any], path: str) -> list[tuple[str, str]]:
    told = []
    if "minimum" in node:
        least, open_end = node["minimum"], node.get("exclusiveMinimum") is True
        if value < least or (open_end and value == least):
            told.append(_bad(value, path, f"should be greater than {'' if open_end else 'or equal to '}{least}"))
    if "maximum" in node:
        most, open_end = node["maximum"], node.get("exclusiveMaximum") is True
        if value > most or (open_end and value == most):
            told.append(_bad(value, path, f"should be less than {'' if open_end else 'or equal to '}{most}"))
    return told


def _of_many(value: list[Any] | Object, node: Mapping[str, Any], path: str) -> list[tuple[str, str]]:
    many, few = ("maxItems", "minItems") if isinstance(value, list) else ("maxProperties", "minProperties")
    told = []
    if many in node and len(value) > node[many]:
        told.append(("FieldValueTooMany", f"Too many: {len(value)}: must have at most {node[many]} items"))
    if few in node and len(value) < node[few]:
        told.append(_bad(len(value), path, f"should have at least {node[few]} items"))
    return told


def _unique(walk: _Walk, value: list[Any], shape: Shape, path: str) -> None:
    if not walk.info.custom:
        return
    seen: set[str] = set()
    for place, one in enumerate(value):
        if shape.keys:
            key = repr(item_key(shape, one))
        elif shape.is_set:
            key = json.dumps(one, sort_keys=True)
        else:
            return
        if key in seen:
            walk.causes.append((f"{path}[{place}]", "FieldValueDuplicate", f"Duplicate value: {json.dumps(one)}"))
        seen.add(key)
