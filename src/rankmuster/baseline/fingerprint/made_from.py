"""Everything that was read of a node as plain values, with `Unknown` where it is unknown.

Only what a file can hold comes out: texts without lone surrogates, finite numbers ("unlimited" for a limit of none),
matrices as rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from rankmuster.model.node_path import Matrix, NodePath
from rankmuster.model.unknown import Unknown

UNLIMITED = "unlimited"


def made_from(path: NodePath, topology_source: str) -> dict[str, Any]:
    """`path` by the names of its fields. `topology_source`: what the topology hash is over."""
    found: dict[str, Any] = {"topology_source": topology_source}
    found |= {one.name: plain(getattr(path, one.name)) for one in fields(path) if one.name not in ("host", "taken_at")}
    return found


def plain(value: Any) -> Any:
    """Dataclasses as mappings, tuples as lists, enums as their values."""
    if isinstance(value, Unknown):
        return Unknown(_text(value.reason))
    if isinstance(value, Matrix):
        return _matrix(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {_text(str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return UNLIMITED if value > 0 else Unknown("no number came back")
    return _text(value) if isinstance(value, str) else value


def _matrix(matrix: Matrix) -> dict[str, Any]:
    rows: dict[str, dict[str, str]] = {}
    for (row, column), word in matrix.cells.items():
        rows.setdefault(_text(row), {})[_text(column)] = _text(word)
    return {"kind": matrix.kind, "rows": rows, "nics": plain(matrix.nics)}


def _text(text: str) -> str:
    """Undecodable bytes of file names come as lone surrogates, which no file in UTF-8 can hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
