"""Benchmark runs as a table for a terminal."""

from __future__ import annotations

from rankmuster.model.benchmark import BenchmarkRun


def as_text(run: BenchmarkRun, width: int) -> str:
    """The run's head, a table per operation, and what is worth knowing, within `width` columns."""
    raise NotImplementedError
