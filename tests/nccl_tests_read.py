"""Output of nccl-tests as a run. The samples are made elsewhere, by what needs none of this package."""

from __future__ import annotations

from rankmuster.evidence.nccl_tests import read_text
from rankmuster.model.benchmark import BenchmarkRun, Operation


def of(text: str, source: str = "out.txt", operation: Operation | None = None) -> BenchmarkRun:
    """Read from text."""
    return read_text(text.encode(), source, operation)
