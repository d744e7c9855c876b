"""A benchmark run as plain values of JSON, and back (schema `rankmuster.benchmark/1`). Keys are the fields' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.plain_json import Bounds, NotPlain, from_plain, to_plain

SCHEMA = "rankmuster.benchmark/1"

BOUNDS = Bounds(text=4_096, members=1_000_000)
"""One measurement's iterations are the longest list; a million are ten thousand times what is usual."""

_PAIRS = ("environment", "settings")


def plain(run: BenchmarkRun) -> dict[str, Any]:
    """The run as values that JSON has. Environment and settings are objects, name to value."""
    found = to_plain(replace(run, environment=(), settings=()), BOUNDS)
    return {"schema": SCHEMA, **found, "environment": dict(run.environment), "settings": dict(run.settings)}


def of_plain(raw: Mapping[str, Any]) -> BenchmarkRun:
    """The run in values that JSON gave. Raises NotPlain, with the place of what is wrong."""
    pairs = {name: _pairs(raw, name) for name in _PAIRS}
    run = from_plain(BenchmarkRun, {**raw, **{name: [] for name in _PAIRS}}, BOUNDS)
    return replace(run, environment=pairs["environment"], settings=pairs["settings"])


def _pairs(raw: Mapping[str, Any], name: str) -> tuple[tuple[str, str], ...]:
    pairs = raw.get(name, {})
    if not isinstance(pairs, Mapping) or not all(isinstance(one, str) for pair in pairs.items() for one in pair):
        raise NotPlain(f"{name} is no object of texts")
    return tuple(sorted(pairs.items()))
