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

_PAIRS = "environment"


def plain(run: BenchmarkRun) -> dict[str, Any]:
    """The run as values that JSON has. The environment is an object, name to value."""
    found = to_plain(_without_pairs(run), BOUNDS)
    found[_PAIRS] = dict(run.environment)
    return {"schema": SCHEMA, **found}


def of_plain(raw: Mapping[str, Any]) -> BenchmarkRun:
    """The run in values that JSON gave. Raises NotPlain, with the place of what is wrong."""
    pairs = raw.get(_PAIRS, {})
    if not isinstance(pairs, Mapping) or not all(isinstance(one, str) for pair in pairs.items() for one in pair):
        raise NotPlain(f"{_PAIRS} is no object of texts")
    run = from_plain(BenchmarkRun, {**raw, _PAIRS: []}, BOUNDS)
    return _with_pairs(run, tuple(sorted(pairs.items())))


def _without_pairs(run: BenchmarkRun) -> BenchmarkRun:
    return _with_pairs(run, ())


def _with_pairs(run: BenchmarkRun, pairs: tuple[tuple[str, str], ...]) -> BenchmarkRun:
    return replace(run, environment=pairs)
