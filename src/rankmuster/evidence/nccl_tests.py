"""nccl-tests' output of every age, text or JSON, as benchmark runs."""

from __future__ import annotations

from rankmuster.model.benchmark import BenchmarkRun, Operation


def read_runs(data: bytes, source: str, operation: Operation | None = None) -> tuple[BenchmarkRun, ...]:
    """Every run in a file, by content: JSON, or a text with any number of tables; () where there is none.

    `operation`: what was measured, where the user knows and the file does not say.
    """
    raise NotImplementedError


def read_text(data: bytes, source: str, operation: Operation | None = None) -> BenchmarkRun:
    """One run from what the tool printed; several tables are one run's."""
    raise NotImplementedError


def read_json(data: bytes, source: str) -> BenchmarkRun:
    """One run from a file of `-J`, versions 1 to 3, whole or cut."""
    raise NotImplementedError
