"""Sets of fields of an object, as managedFields keep them (FieldsV1), and which of them differ between two objects.

A field is a path of elements: ("f", name), ("k", ((key, value), ...)) of an item of a list that is a map, ("v", JSON)
of an item of a set.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kube_sim.shapes import Shape, item_key

Path = tuple[tuple[str, Any], ...]
Fields = frozenset[Path]

_SERVERS = (
    *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
    *("selfLink", "managedFields", "deletionGracePeriodSeconds", "generateName"),
)
STRIPPED = frozenset((("f", "metadata"), ("f", name)) for name in _SERVERS) | {
    (("f", "apiVersion"),),
    (("f", "kind"),),
}
"""Owned by nobody."""


def fields_of(obj: Mapping[str, Any], shape: Shape) -> Fields:
    """All fields that are set in it."""
    found: set[Path] = set()
    _gather(obj, shape, (), found)
    return frozenset(path for path in found if not any(path[: len(one)] == one for one in STRIPPED))


def _gather(value: Any, shape: Shape, path: Path, found: set[Path]) -> None:
    if isinstance(value, Mapping) and not shape.atomic:
        for key, one in value.items():
            below = (*path, ("f", key))
            if one is None or one == {} or not shape.declares(key):
                found.add(below)
            _gather(one, shape.field(key), below, found)
    elif isinstance(value, list) and shape.keys:
        for one in value:
            key = item_key(shape, one)
            if key is None:
                found.add(path)
                continue
            below = (*path, ("k", key))
            found.add(below)
            _gather(one, shape.item(), below, found)
    elif isinstance(value, list) and shape.is_set:
        found.update((*path, ("v", json.dumps(one))) for one in value)
    elif path:
        found.add(path)


def value_at(obj: Any, path: Path, shape: Shape) -> Any:
    """What is there; None where nothing is."""
    for kind, what in path:
        if kind == "f":
            obj, shape = (obj.get(what) if isinstance(obj, Mapping) else None), shape.field(what)
        elif kind == "k":
            found = [one for one in obj or () if item_key(shape, one) == what] if isinstance(obj, list) else []
            obj, shape = (found[0] if found else None), shape.item()
        else:
            return json.loads(what) if isinstance(obj, list) and json.loads(what) in obj else None
    return obj


def _leaf(value: Any, shape: Shape) -> Any:
    """What counts as this field's own value: of maps and of items only that they are there."""
    if isinstance(value, Mapping) and not shape.atomic:
        return "{}"
    return value


def differing(before: Mapping[str, Any], after: Mapping[str, Any], shape: Shape) -> tuple[Fields, Fields]:
    """(added or changed, removed)."""
    old, new = fields_of(before, shape), fields_of(after, shape)
    changed = {
        path
        for path in new & old
        if _leaf(value_at(before, path, shape), shape_at(shape, path))
        != _leaf(value_at(after, path, shape), shape_at(shape, path))
    }
    return frozenset(changed | (new - old)), frozenset(old - new)


def shape_at(shape: Shape, path: Path) -> Shape:
    for kind, what in path:
        shape = shape.field(what) if kind == "f" else shape.item()
    return shape


def encoded(fields: Iterable[Path]) -> dict[str, Any]:
    """FieldsV1."""
    root: dict[str, Any] = {}
    for path in sorted(fields, key=repr):
        node = root
        for kind, what in path:
            text = json.dumps(dict(what), separators=(",", ":")) if kind == "k" else str(what)
            node = node.setdefault(f"{kind}:{text}", {})
        node["."] = {}
    return _tidy(root)


def _tidy(node: dict[str, Any]) -> dict[str, Any]:
    if set(node) == {"."}:
        return {}
    return {key: _tidy(one) if key != "." else {} for key, one in node.items()}


def decoded(node: Mapping[str, Any], path: Path = ()) -> Fields:
    """Of FieldsV1."""
    found: set[Path] = set()
    if path and (not node or "." in node):
        found.add(path)
    for key, one in node.items():
        if key == ".":
            continue
        kind, _, text = key.partition(":")
        what: Any = tuple(json.loads(text).items()) if kind == "k" else text
        found |= decoded(one, (*path, (kind, what)))
    return frozenset(found)


def told(path: Path) -> str:
    """As conflicts name a field: `.spec.containers[name="engine"].image`."""
    words = []
    for kind, what in path:
        if kind == "f":
            words.append(f".{what}")
        elif kind == "k":
            words.append("[" + ",".join(f"{key}={json.dumps(value)}" for key, value in what) + "]")
        else:
            words.append(f"[={what}]")
    return "".join(words)
