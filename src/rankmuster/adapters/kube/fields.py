"""Reading of objects as an API server gives them, or what stands before it: any field may be missing, null or of
another type, and is then as if it were not there. Pure.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from rankmuster.evidence.json_fields import number, unix_seconds
from rankmuster.model.kube import OwnerView

MOST_VALUE = 4096
"""Characters of one text that is kept: labels have 63, names 253; an annotation may have 256 KiB."""

_NOTHING: Mapping[str, Any] = {}


def part(raw: object, *path: str) -> Mapping[str, Any]:
    """The object at the end of `path`; an empty one where there is none."""
    found = at(raw, *path)
    return found if isinstance(found, Mapping) else _NOTHING


def parts(raw: object, *path: str) -> tuple[Mapping[str, Any], ...]:
    """The objects in the list at the end of `path`; what is no object is left out."""
    found = at(raw, *path)
    return tuple(one for one in found if isinstance(one, Mapping)) if isinstance(found, (list, tuple)) else ()


def at(raw: object, *path: str) -> Any:
    """Whatever stands at the end of `path`, None where nothing does."""
    for key in path:
        if not isinstance(raw, Mapping):
            return None
        raw = raw.get(key)
    return raw


def text(raw: object, *path: str) -> str | None:
    """A text that is not empty, cut at MOST_VALUE."""
    found = at(raw, *path)
    return found[:MOST_VALUE] if isinstance(found, str) and found else None


def whole(raw: object, *path: str, default: int | None = None) -> int | None:
    """A whole number from 0, also where it is written as a text ("8", as quantities are)."""
    found = number(at(raw, *path))
    return default if found is None else found


def flag(raw: object, *path: str) -> bool:
    """Whether it is true, and nothing else."""
    return at(raw, *path) is True


def moment(raw: object, *path: str) -> float | None:
    """Unix seconds of a time as Kubernetes writes it."""
    return unix_seconds(at(raw, *path))


def stamp(at: float) -> str:
    """Unix seconds as Kubernetes writes times: what `moment` reads."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def texts(raw: object, *path: str, prefixes: tuple[str, ...] = ("",)) -> dict[str, str]:
    """Labels or annotations: what is no text is left out. Keys repeat over thousands of objects, and are kept once.
    `prefixes`: of the keys that are wanted."""
    return {
        sys.intern(key): sys.intern(value) if len(value) <= 64 else value[:MOST_VALUE]
        for key, value in part(raw, *path).items()
        if isinstance(key, str) and key.startswith(prefixes) and isinstance(value, str)
    }


def identity(raw: object, *, namespaced: bool = True) -> tuple[str, str, str]:
    """(namespace, name, uid); an empty namespace where the kind has none. Raises ValueError where one is missing."""
    namespace, name, uid = (text(raw, "metadata", key) for key in ("namespace", "name", "uid"))
    missing = [
        word for word, value in (("namespace", namespace or not namespaced), ("name", name), ("uid", uid)) if not value
    ]
    if missing or name is None or uid is None:
        what = text(raw, "kind") or "object"
        raise ValueError(f"{what} {namespace or '?'}/{name or '?'} has no metadata.{' and no metadata.'.join(missing)}")
    return sys.intern(namespace or ""), name, uid


def controller(raw: object) -> OwnerView | None:
    """The owner that controls it."""
    for one in parts(raw, "metadata", "ownerReferences"):
        kind, name, uid = text(one, "kind"), text(one, "name"), text(one, "uid")
        if flag(one, "controller") and kind is not None and name is not None and uid is not None:
            return OwnerView(kind=sys.intern(kind), name=sys.intern(name), uid=sys.intern(uid))
    return None


def condition(raw: object, type_: str) -> Mapping[str, Any]:
    """The condition of that type; an empty one where there is none."""
    return next((one for one in parts(raw, "status", "conditions") if one.get("type") == type_), _NOTHING)
