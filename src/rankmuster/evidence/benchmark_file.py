"""A benchmark run from its JSON form (schema `rankmuster.benchmark/1`), checked: a file may be anybody's."""

from __future__ import annotations

import re

from rankmuster.evidence import json_text
from rankmuster.evidence.benchmark_sound import contradiction
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.benchmark_document import SCHEMA, of_plain
from rankmuster.model.plain_json import NotPlain

_SCHEMA = re.compile(rb'"schema"\s*:\s*"rankmuster\.benchmark/')


class NotABenchmark(Exception):
    """The bytes are no benchmark run; the message says what is wrong and where."""


def recognises(data: bytes) -> bool:
    """Whether it looks like a benchmark's JSON form, of whatever version."""
    return json_text.begins(data, _SCHEMA)


def read_benchmark(data: bytes) -> BenchmarkRun:
    """The run. Raises NotABenchmark; a cut file is refused whole, since it may have lost what makes a run a bad one."""
    parsed = json_text.parse(data)
    if parsed.damage is not None or not isinstance(parsed.value, dict):
        raise NotABenchmark(f"it is no whole JSON object ({parsed.damage or 'another value'}); copy it again")
    schema = parsed.value.get("schema")
    if schema != SCHEMA:
        said = repr(schema)[:60]
        raise NotABenchmark(f"its schema is {said}, and this version reads {SCHEMA}; a newer version may have made it")
    try:
        run = of_plain(parsed.value)
    except NotPlain as error:
        raise NotABenchmark(f"it is damaged or was changed by hand: {error}") from error
    words = contradiction(run)
    if words:
        raise NotABenchmark(f"it is damaged or was changed by hand: {words}")
    return run
