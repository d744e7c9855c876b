"""A benchmark run as JSON (schema `rankmuster.benchmark/1`), which `evidence.benchmark_file` reads back."""

from __future__ import annotations

import json

from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.benchmark_document import SCHEMA, plain

__all__ = ["SCHEMA", "as_json"]


def as_json(run: BenchmarkRun) -> str:
    """The document, ended by a newline; lists of numbers stand on one line each."""
    return json.dumps(plain(run), ensure_ascii=False, allow_nan=False) + "\n"
