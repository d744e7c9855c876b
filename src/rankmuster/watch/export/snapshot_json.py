"""A `Snapshot` as plain values of JSON (schema `rankmuster.watch/1`), and back, checked. Pure.

The same names as in `snapshot`. The file may be anybody's by the time it is read, so nothing in it is trusted to be
small.
"""

from __future__ import annotations

from typing import Any

from rankmuster.model.plain_json import Bounds, NotPlain, from_plain, to_plain
from rankmuster.watch.snapshot import SCHEMA, Snapshot

BOUNDS = Bounds(text=2_000, members=1_024)
"""A reason is a sentence or two; ranks on a node are 8 to 64, of a group at most a few thousand."""


class NotASnapshot(Exception):
    """The values are not those of a snapshot; the message says where."""


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """As plain values, all finite: what is not a number becomes null, or 0 where there has to be one."""
    return {"schema": SCHEMA, **to_plain(snapshot, BOUNDS)}


def from_json(raw: object) -> Snapshot:
    """The snapshot in values that JSON gave. Raises NotASnapshot."""
    if not isinstance(raw, dict):
        raise NotASnapshot(f"it holds a {type(raw).__name__}, not an object")
    schema = raw.get("schema")
    if schema != SCHEMA:
        raise NotASnapshot(f"its schema is {str(schema)[:60]!r}; this version reads {SCHEMA!r}")
    try:
        return from_plain(Snapshot, raw, BOUNDS)
    except NotPlain as error:
        raise NotASnapshot(str(error)) from error
