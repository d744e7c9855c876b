"""A verdict as plain values of JSON, in the schema's names and order, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.model.plain_json import Bounds, from_plain, to_plain
from rankmuster.model.verdict import Suspect, Verdict

BOUNDS = Bounds(text=1 << 24, members=1 << 20)
"""Far above anything that a verdict holds: whoever reads one from a file bounds the file."""


def verdict_to_plain(verdict: Verdict) -> dict[str, Any]:
    """Numbers are finite, nulls are kept."""
    return to_plain(verdict, BOUNDS)


def verdict_from_plain(raw: object) -> Verdict:
    """The verdict in values that JSON gave. Raises `plain_json.NotPlain`."""
    return from_plain(Verdict, raw, BOUNDS)


def suspect_to_plain(suspect: Suspect) -> dict[str, Any]:
    """As in a verdict."""
    return to_plain(suspect, BOUNDS)


def suspects_from_plain(verdict: Mapping[str, object]) -> tuple[Suspect, ...]:
    """Those of a verdict's values. Raises `plain_json.NotPlain`."""
    raw = verdict.get("suspects")
    return tuple(from_plain(Suspect, one, BOUNDS) for one in raw) if isinstance(raw, list) else ()
