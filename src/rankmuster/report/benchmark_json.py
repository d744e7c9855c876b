"""A benchmark run as JSON (schema `rankmuster.benchmark/1`)."""

from __future__ import annotations

from rankmuster.model.benchmark import BenchmarkRun

SCHEMA = "rankmuster.benchmark/1"


def as_json(run: BenchmarkRun) -> str:
    """The document, which `evidence.benchmark_file.read_benchmark` reads back."""
    raise NotImplementedError
