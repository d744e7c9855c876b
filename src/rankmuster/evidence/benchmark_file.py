"""A benchmark run from its JSON form (schema `rankmuster.benchmark/1`)."""

from __future__ import annotations

from rankmuster.model.benchmark import BenchmarkRun


class NotABenchmark(Exception):
    """The bytes are no benchmark run; the message says what is wrong and where."""


def read_benchmark(data: bytes) -> BenchmarkRun:
    """The run. Raises NotABenchmark."""
    raise NotImplementedError
