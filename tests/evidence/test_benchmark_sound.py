"""A run in our own form whose numbers contradict each other is refused as damaged, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rankmuster.evidence.benchmark_file import NotABenchmark, read_benchmark
from rankmuster.model.benchmark import BenchmarkRank, BenchmarkRun, Cell, Measurement, Operation, RunState
from rankmuster.report.benchmark_json import as_json

CELL = Cell(Operation.ALL_REDUCE, 1 << 20, "bfloat16")
ROW = Measurement(CELL, 100.0, 10.48576, 15.72864, 0)
RANKS = tuple(BenchmarkRank(rank, "node7", None, rank, None, None) for rank in range(4))


def run(row: Measurement) -> BenchmarkRun:
    return BenchmarkRun("here", "built-in", None, None, 1.8e9, RunState.COMPLETE, "", RANKS, (row,))


def test_numbers_that_agree_are_read_also_as_nccl_tests_rounds_them() -> None:
    assert read_benchmark(as_json(run(ROW)).encode()).measurements == (ROW,)
    rounded = replace(ROW, algbw=10.49, busbw=15.73)
    assert read_benchmark(as_json(run(rounded)).encode()).measurements == (rounded,)
    slow = Measurement(replace(CELL, size_bytes=64), 21.4, 0.0, 0.0, 0)
    assert read_benchmark(as_json(run(slow)).encode()).measurements == (slow,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time_us": 0.0}, "a time of 0 us is none"),
        ({"time_us": -5.0}, "a time of -5 us is none"),
        ({"time_us": 50.0}, "size / time is 20.97 GB/s, and its algbw is 10.49"),
        ({"algbw": 5.24288, "busbw": 7.86432}, "size / time is 10.49 GB/s, and its algbw is 5.243"),
        ({"busbw": 10.48576}, "its busbw is 10.49 GB/s, and over 4 GPUs it is 15.73"),
    ],
)
def test_numbers_that_contradict_each_other_are_damage(changes: dict[str, float], words: str) -> None:
    with pytest.raises(NotABenchmark) as raised:
        read_benchmark(as_json(run(replace(ROW, **changes))).encode())
    assert words in str(raised.value)
    assert "all_reduce of 1 MiB" in str(raised.value)
