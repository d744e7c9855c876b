"""A file, folder or archive with benchmark runs, of whatever tool: nccl-tests' text and JSON, or our own form."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rankmuster.bench.builtin import from_output
from rankmuster.evidence.benchmark_file import NotABenchmark, read_benchmark, recognises
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.folder import EvidenceError, walk
from rankmuster.evidence.given_file import CannotRead, bytes_in
from rankmuster.evidence.nccl_tests import read_runs
from rankmuster.evidence.packed_stream import Allowance
from rankmuster.evidence.unpack import unpack
from rankmuster.model.benchmark import BenchmarkRun, Operation

MOST_BYTES = 256 << 20
"""Of one file. A JSON of a million iterations has 20 MB, a log at level INFO of a large job tens of MB."""

STDIN = "-"

_PACKED = (".gz", ".tgz", ".zst", ".tar")
_WORDS = (b"busbw", b"_perf", b"alg_bw", b"rankmuster.benchmark/")
"""One of them stands in every benchmark's output: the other files of a folder are not looked at."""


class NoRuns(Exception):
    """There is no run that can be read; the message says what was found instead."""


def read_file(name: str, operation: Operation | None = None) -> tuple[BenchmarkRun, ...]:
    """Every run in a file, or in all of a folder, bundle or archive; `-` is standard input. Raises NoRuns."""
    if name != STDIN and (Path(name).is_dir() or name.endswith(_PACKED)):
        return _of_folder(name, operation)
    return runs_in(output_in(name), "standard input" if name == STDIN else name, operation)


def output_in(name: str) -> bytes:
    """A benchmark's output as it is; `-` is standard input. Raises NoRuns: it cannot be read, or is too large."""
    try:
        return _standard_input() if name == STDIN else bytes_in(Path(name), MOST_BYTES, "benchmark's output")
    except CannotRead as error:
        raise NoRuns(str(error)) from error


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise NoRuns("cannot read standard input: it is closed")
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
    except OSError as error:
        raise NoRuns(f"cannot read standard input: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise NoRuns(f"standard input has more than {MOST_BYTES >> 20} MiB, and no benchmark's output is that large")
    return data


def runs_in(data: bytes, source: str, operation: Operation | None = None) -> tuple[BenchmarkRun, ...]:
    """Every run in bytes, by content. Our own form has one run a line. Raises NoRuns."""
    if recognises(data):
        try:
            return tuple(read_benchmark(line) for line in data.splitlines() if line.strip())
        except NotABenchmark as error:
            raise NoRuns(f"{source} is no benchmark run: {error}") from error
    if not data.strip():
        raise NoRuns(f"{source} is empty")
    if from_output.recognises(data):
        try:
            return (from_output.read_output([data], source),)
        except ValueError as error:
            raise NoRuns(str(error)) from error
    runs = read_runs(data, source, operation)
    if not runs:
        raise NoRuns(f"{source} holds no output of nccl-tests: neither a table, nor its JSON, nor a failure of it")
    return runs


def _of_folder(name: str, operation: Operation | None) -> tuple[BenchmarkRun, ...]:
    """The runs of all files that are a benchmark's. A damaged document of our own is refused, not passed over."""
    found: list[BenchmarkRun] = []
    try:
        for blob in _blobs(Path(name)):
            if not any(word in blob.data for word in _WORDS):
                continue
            source = f"{name}/{blob.path}"
            runs = runs_in(blob.data, source) if recognises(blob.data) else read_runs(blob.data, source, operation)
            found += [run for run in runs if _begun(run)]
    except EvidenceError as error:
        raise NoRuns(str(error)) from error
    if not found:
        raise NoRuns(
            f"{name} holds no benchmark's output: no table of nccl-tests, none of its JSON, and no run of ours"
        )
    return tuple(found)


def _blobs(path: Path) -> Iterator[Blob]:
    allowance = Allowance()
    for item in walk(path):
        if isinstance(item, Blob):
            yield from (part for part in unpack(item, allowance) if isinstance(part, Blob))


def _begun(run: BenchmarkRun) -> bool:
    """Whether the file is a benchmark's at all: other programs' logs also speak of crashes."""
    started = any(word.startswith("-") for word in run.command)
    return bool(run.measurements or run.ranks or run.tool_version or started)
