"""Schemas as a tree to walk: which lists are maps by keys, which are sets, which values are one piece.

Of Kubernetes' own kinds from its OpenAPI document (the copy that the package kubernetes-validate brings), of custom
resources from their structural schema. Where there is no schema, lists are one piece and maps are not, as the real
server deduces it.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from kube_sim.kinds import KindInfo

RELEASE = "v1.32.0"
"""Whose OpenAPI document is used: what the simulated server says that it is."""

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


@lru_cache(maxsize=1)
def definitions() -> dict[str, Any]:
    """The document's `definitions`."""
    found = importlib.util.find_spec("kubernetes_validate")
    if found is None or found.origin is None:
        raise RuntimeError("the simulated API server needs the package kubernetes-validate (extra [dev])")
    folder = Path(found.origin).parent / "kubernetes-json-schema" / f"{RELEASE}-local"
    made: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())["$defs"]
    return made


@lru_cache(maxsize=1)
def _by_kind() -> dict[tuple[str, str, str], str]:
    found: dict[tuple[str, str, str], str] = {}
    for name, one in definitions().items():
        for row in one.get("x-kubernetes-group-version-kind") or ():
            found.setdefault((row["group"], row["version"], row["kind"]), name)
    return found


class Shape:
    """What one place of an object may hold. `node`: its schema; empty where nothing is known."""

    __slots__ = ("_fields", "_item", "node")

    def __init__(self, node: Mapping[str, Any] | None) -> None:
        self._fields: dict[str, Shape] = {}
        self._item: Shape | None = None
        node = node or {}
        while "$ref" in node:
            outer = {key: value for key, value in node.items() if key.startswith("x-kubernetes")}
            inner = definitions()[str(node["$ref"]).rpartition("/")[2]]
            node = {**inner, **outer} if outer else inner
        self.node = node

    def field(self, name: str) -> Shape:
        """Of one key of an object; unknown where the schema does not tell."""
        properties = self.node.get("properties") or {}
        at = name if name in properties else ""
        if at not in self._fields:
            more = self.node.get("additionalProperties")
            self._fields[at] = Shape(properties[name] if at else more if isinstance(more, Mapping) else None)
        return self._fields[at]

    def declares(self, name: str) -> bool:
        """Whether it is a field of a struct, not a key of a map."""
        return name in (self.node.get("properties") or {})

    def item(self) -> Shape:
        """Of the items of a list."""
        if self._item is None:
            self._item = Shape(self.node.get("items"))
        return self._item

    @property
    def keys(self) -> tuple[str, ...]:
        """By which items are the same, where it is a list that is a map; else empty."""
        if self.node.get("x-kubernetes-list-type") != "map":
            return ()
        return tuple(self.node.get("x-kubernetes-list-map-keys") or ())

    @property
    def is_set(self) -> bool:
        return self.node.get("x-kubernetes-list-type") == "set"

    @property
    def atomic(self) -> bool:
        """A map that is one piece."""
        return self.node.get("x-kubernetes-map-type") == "atomic"

    @property
    def merge_key(self) -> str | None:
        """Of a strategic merge patch; None where lists are replaced. Empty: items are values."""
        strategy = str(self.node.get("x-kubernetes-patch-strategy") or "")
        if "merge" not in strategy.split(","):
            return None
        return str(self.node.get("x-kubernetes-patch-merge-key") or "")

    def default(self, name: str) -> Any:
        """Of a field that is not there."""
        return ((self.node.get("properties") or {}).get(name) or {}).get("default")


_DEFAULT_KEYS = {"protocol": "TCP"}
"""Keys of list maps which defaulting fills in before they are compared."""


def item_key(shape: Shape, item: Any) -> tuple[tuple[str, Any], ...] | None:
    """By which an item of a list map is known; None where it lacks a key."""
    if not isinstance(item, Mapping):
        return None
    found = []
    for key in shape.keys:
        value = item.get(key, _DEFAULT_KEYS.get(key, shape.item().default(key)))
        if value is None:
            return None
        found.append((key, value))
    return tuple(found)


@lru_cache(maxsize=256)
def _own_shape(group: str, version: str, kind: str) -> Shape:
    name = _by_kind().get((group, version, kind))
    return Shape(definitions()[name] if name else None)


_CUSTOM: dict[tuple[int, str], tuple[KindInfo, Shape]] = {}


def shape_of(info: KindInfo, version: str | None = None) -> Shape:
    """Of objects of this kind."""
    if not info.custom:
        return _own_shape(info.group, info.version, info.kind)
    at = (id(info), version or info.version)
    if at not in _CUSTOM:
        schema = info.schemas.get(version or info.version) or {}
        properties = dict(schema.get("properties") or {})
        properties["metadata"] = {"$ref": f"#/$defs/{_META}"}
        properties.setdefault("apiVersion", {"type": "string"})
        properties.setdefault("kind", {"type": "string"})
        _CUSTOM[at] = (info, Shape({**schema, "properties": properties}))
    return _CUSTOM[at][1]
