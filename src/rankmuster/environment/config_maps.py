"""ConfigMaps that stand in the same file as the pods that take variables from them, as Helm renders them.

Secrets are never looked into: what comes from one is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

ConfigMaps = Mapping[str, Mapping[str, str]]
"""Name -> key -> value."""


def config_maps(documents: Iterable[object]) -> dict[str, dict[str, str]]:
    """Those among the documents, by name. Two of one name (of two namespaces) are none: which one counts is unknown."""
    found: dict[str, dict[str, str]] = {}
    twice: set[str] = set()
    for document in _objects(documents):
        metadata, data = document.get("metadata"), document.get("data")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        if document.get("kind") != "ConfigMap" or not isinstance(name, str) or not isinstance(data, Mapping):
            continue
        if name in found:
            twice.add(name)
        found[name] = {key: value for key, value in data.items() if isinstance(key, str) and isinstance(value, str)}
    return {name: data for name, data in found.items() if name not in twice}


def _objects(documents: Iterable[object]) -> Iterable[Mapping[Any, Any]]:
    for document in documents:
        if isinstance(document, Mapping):
            yield document
            items = document.get("items")
            yield from (item for item in (items if isinstance(items, list) else ()) if isinstance(item, Mapping))


def brought_in(sources: Iterable[object], maps: ConfigMaps) -> tuple[dict[str, str], list[str]]:
    """(what a container's `envFrom` sets, later sources over earlier ones; what of it is not known here)."""
    values: dict[str, str] = {}
    dark: list[str] = []
    for source in sources:
        reference = source.get("configMapRef") if isinstance(source, Mapping) else None
        name = reference.get("name") if isinstance(reference, Mapping) else None
        if not isinstance(source, Mapping) or not isinstance(name, str) or name not in maps:
            kind = "ConfigMap" if reference is not None else "Secret or other source"
            dark.append(f"envFrom brings in more variables, from a {kind} that is not in this file: not known here")
            continue
        prefix = source.get("prefix")
        values.update({(prefix if isinstance(prefix, str) else "") + key: text for key, text in maps[name].items()})
    return values, dark


def referred(entry: Mapping[Any, Any], maps: ConfigMaps) -> str | None:
    """The value of a `valueFrom` that points into one of the ConfigMaps; None: not known here."""
    source = entry.get("valueFrom")
    reference = source.get("configMapKeyRef") if isinstance(source, Mapping) else None
    if not isinstance(reference, Mapping):
        return None
    name, key = reference.get("name"), reference.get("key")
    return maps.get(name, {}).get(key) if isinstance(name, str) and isinstance(key, str) else None
