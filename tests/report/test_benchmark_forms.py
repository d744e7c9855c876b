"""A run as text fits its terminal and hides nothing; as JSON it reads back as itself, or is refused with the place."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rankmuster.evidence.benchmark_file import NotABenchmark, read_benchmark
from rankmuster.model.benchmark import (
    AlgorithmChoice,
    BenchmarkRank,
    BenchmarkRun,
    Cell,
    Measurement,
    Operation,
    RunState,
    Spread,
)
from rankmuster.model.benchmark_document import SCHEMA
from rankmuster.model.plain_json import keys
from rankmuster.report.benchmark_json import as_json
from rankmuster.report.benchmark_text import as_text
from rankmuster.report.size_words import size_words

RUN = BenchmarkRun(
    source="nccl-tests in /opt/nccl-tests/build",
    tool="nccl-tests",
    tool_version="2.19.6",
    nccl_version="2.28.9",
    started_at=1_795_986_000.5,
    state=RunState.WRONG,
    reason="wrong values: 17 (#wrong, Out of bounds values)",
    ranks=tuple(BenchmarkRank(rank, "node01", 70, rank, f"0000:0{rank}:00", "NVIDIA H200") for rank in range(4)),
    measurements=(
        Measurement(
            Cell(Operation.ALL_REDUCE, 16384, "bfloat16", graph=True),
            12.5,
            1.31,
            1.97,
            0,
            Spread(11.0, 20.0, 12.0, 19.5, 7.25),
            (11.0, 12.0, 20.0),
            (12.0, 12.6),
        ),
        Measurement(Cell(Operation.ALL_REDUCE, 16777216, "bfloat16", graph=True), 1203.4, 13.94, 20.91, 17),
        Measurement(Cell(Operation.SEND_RECV, 16777216, "bfloat16"), 103.4, 162.26, 162.26, None),
    ),
    choices=(AlgorithmChoice("all_reduce", 16384, "Tree", "LL", 8),),
    environment=(("CUDA_VISIBLE_DEVICES", "0,1,2,3"), ("NCCL_ALGO", "Ring")),
    transports=("P2P/CUMEM",),
    channels=24,
    command=("all_reduce_perf", "-g", "4"),
)


def test_the_table_says_all_there_is() -> None:
    text = as_text(RUN, 120)
    assert "wrong: wrong values: 17" in text
    assert "all_reduce, bfloat16, out of place, replayed from a CUDA graph" in text
    assert "4 ranks on node01 (NVIDIA H200)" in text
    row = next(line for line in text.splitlines() if "16 KiB" in line)
    assert row.split() == ["16", "KiB", "12.50", "1.31", "1.97", "0", "7.2", "19.50", "5.0", "Tree/LL", "x8"]
    assert "unchecked" in text
    assert "set: CUDA_VISIBLE_DEVICES=0,1,2,3 NCCL_ALGO=Ring" in text


@pytest.mark.parametrize("width", [40, 50, 60, 72, 80, 100, 160])
def test_it_fits_its_terminal_and_keeps_what_matters_most(width: int) -> None:
    text = as_text(RUN, width)
    assert max(len(line) for line in text.splitlines()) <= width
    for word in ("size", "time us", "busbw GB/s", "wrong"):
        assert word in text


def test_what_a_failing_machine_says_does_not_act_on_the_terminal() -> None:
    odd = replace(RUN, source="x\x1b[2J", ranks=(replace(RUN.ranks[0], host="n\x07"),))
    assert "\x1b" not in as_text(odd, 80)
    assert "\x07" not in as_text(odd, 80)


def test_json_reads_back_as_the_same_run() -> None:
    assert read_benchmark(as_json(RUN).encode()) == RUN
    document = json.loads(as_json(RUN))
    assert document["schema"] == SCHEMA
    assert set(document) == {"schema", *keys(BenchmarkRun)}
    assert document["environment"] == {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "NCCL_ALGO": "Ring"}


def test_a_json_that_is_cut_or_of_another_version_or_changed_is_refused_with_the_reason() -> None:
    data = as_json(RUN).encode()
    for end in range(0, len(data) - 2, 97):
        with pytest.raises(NotABenchmark, match="no whole JSON object"):
            read_benchmark(data[:end])
    with pytest.raises(NotABenchmark, match=r"this version reads rankmuster\.benchmark/1"):
        read_benchmark(data.replace(b"benchmark/1", b"benchmark/2"))
    with pytest.raises(NotABenchmark, match=r"measurements\[0\].cell.operation"):
        read_benchmark(data.replace(b'"all_reduce"', b'"all_reduced"', 1))
    with pytest.raises(NotABenchmark, match="environment"):
        read_benchmark(data.replace(b'"Ring"', b"7"))


def test_sizes_for_people() -> None:
    assert [size_words(size) for size in (96, 1024, 256_512, 1_835_008, 16 << 20, 5 << 30)] == [
        *("96 B", "1 KiB", "250.5 KiB", "1.75 MiB", "16 MiB", "5 GiB")
    ]
