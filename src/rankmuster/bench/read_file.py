"""A file with benchmark runs, of whatever tool: what nccl-tests printed, its JSON, or our own form."""

from __future__ import annotations

import sys
from pathlib import Path

from rankmuster.evidence.benchmark_file import NotABenchmark, read_benchmark, recognises
from rankmuster.evidence.nccl_tests import read_runs
from rankmuster.model.benchmark import BenchmarkRun, Operation

MOST_BYTES = 256 << 20
"""Of one file. A JSON of a million iterations has 20 MB, a log at level INFO of a large job tens of MB."""

STDIN = "-"


class NoRuns(Exception):
    """The file has no run that can be read; the message says what was found instead."""


def read_file(name: str, operation: Operation | None = None) -> tuple[BenchmarkRun, ...]:
    """Every run in a file; `-` is standard input. Raises NoRuns."""
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise NoRuns(f"cannot read {name}: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise NoRuns(f"{name} has more than {MOST_BYTES >> 20} MiB, which no benchmark writes; give its own output")
    return runs_in(data, "standard input" if name == STDIN else name, operation)


def runs_in(data: bytes, source: str, operation: Operation | None = None) -> tuple[BenchmarkRun, ...]:
    """Every run in bytes, by content. Our own form has one run a line. Raises NoRuns."""
    if recognises(data):
        try:
            return tuple(read_benchmark(line) for line in data.splitlines() if line.strip())
        except NotABenchmark as error:
            raise NoRuns(f"{source} is no benchmark run: {error}") from error
    if not data.strip():
        raise NoRuns(f"{source} is empty")
    runs = read_runs(data, source, operation)
    if not runs:
        raise NoRuns(f"{source} holds no output of nccl-tests: neither a table, nor its JSON, nor a failure of it")
    return runs
