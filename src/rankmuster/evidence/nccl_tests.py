"""nccl-tests' output of every age, text or JSON, as benchmark runs."""

from __future__ import annotations

from dataclasses import replace

from rankmuster.evidence import nccl_tests_json
from rankmuster.evidence.nccl_choices import log_view
from rankmuster.evidence.nccl_tests_lines import MAX_BYTES
from rankmuster.evidence.nccl_tests_merge import merged
from rankmuster.evidence.nccl_tests_runs import TOOL, benchmark_run
from rankmuster.evidence.nccl_tests_text import tables
from rankmuster.model.benchmark import BenchmarkRun, Operation, RunState


def read_runs(data: bytes, source: str, operation: Operation | None = None) -> tuple[BenchmarkRun, ...]:
    """Every run in a file, by content: JSON, or a text with any number of tables; () where there is none.

    `operation`: what was measured, where the user knows and the file does not say.
    """
    if nccl_tests_json.recognises(data):
        return (nccl_tests_json.read(data, source, operation),)
    return _of_text(data, source, operation)


def read_text(data: bytes, source: str, operation: Operation | None = None) -> BenchmarkRun:
    """One run from what the tool printed; several tables are one run's (one process for each operation)."""
    runs = _of_text(data, source, operation)
    return merged(runs) if runs else _nothing(source, "there is no output of nccl-tests in it")


def read_json(data: bytes, source: str, operation: Operation | None = None) -> BenchmarkRun:
    """One run from a file of `-J`, versions 1 to 3, whole or cut."""
    return nccl_tests_json.read(data, source, operation)


def _of_text(data: bytes, source: str, operation: Operation | None) -> tuple[BenchmarkRun, ...]:
    runs = [replace(benchmark_run(table, source, operation), environment_whole=False) for table in tables(data)]
    if not runs:
        return ()
    if len(data) > MAX_BYTES:
        note = f"only the first {MAX_BYTES >> 20} MiB of the file were read"
        runs[-1] = replace(runs[-1], reason="; ".join(part for part in (runs[-1].reason, note) if part))
    if len(runs) == 1 and b"NCCL INFO" in data:
        view = log_view(data[:MAX_BYTES], source)
        runs[0] = replace(
            runs[0],
            nccl_version=runs[0].nccl_version or view.nccl_version,
            choices=view.choices,
            transports=view.transports,
            channels=view.channels,
            environment=view.settings,
        )
    return tuple(runs)


def _nothing(source: str, reason: str) -> BenchmarkRun:
    return BenchmarkRun(source, TOOL, None, None, None, RunState.INCOMPLETE, reason, (), ())
