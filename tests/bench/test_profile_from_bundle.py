"""A profile computed from what an instance did measures what weighed most there, and says what it cannot know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankmuster.bench.profile_file import as_yaml, read_profile
from rankmuster.bench.profile_from_bundle import NothingRecorded, Weight, profile_of
from rankmuster.evidence.bundle import Evidence, load
from rankmuster.evidence.flight_table import ColumnBuilder
from rankmuster.model.benchmark import Operation
from rankmuster.model.flight import FlightDump

CASES = Path(__file__).parents[1] / "cases"


def entry(
    op: str, elements: int, milliseconds: float | None = None, dtype: str = "BFloat16", ranks: int = 4
) -> dict[str, Any]:
    name = op.partition(":")[2] or op
    out = elements * ranks if "gather" in name else elements
    return {
        "profiling_name": op,
        "process_group": ["0", "default_pg"],
        "input_sizes": [[elements]],
        "output_sizes": [[out]],
        "input_dtypes": [dtype],
        "output_dtypes": [dtype],
        "duration_ms": milliseconds,
        "state": "completed",
    }


def evidence(*entries: dict[str, Any], ranks: int = 1) -> Evidence:
    dumps = []
    for rank in range(ranks):
        builder = ColumnBuilder()
        for one in entries:
            builder.add(one)
        columns = builder.build({("0", "default_pg"): tuple(range(4))})
        dumps.append(FlightDump(f"rank_{rank}", rank, None, "json", (2, 4), None, columns, {}))
    return Evidence({FlightDump: tuple(dumps)})


def test_sizes_are_those_that_nccl_tests_counts() -> None:
    made = profile_of(
        evidence(
            entry("nccl:all_reduce", 8192),
            entry("nccl:_all_gather_base", 4096),
            entry("nccl:send 0->1", 65536, dtype="Float"),
            entry("nccl:recv 0<-1", 65536, dtype="Float"),
        ),
        name="own",
    )
    assert {(step.operation, step.dtype): step.sizes for step in made.profile.steps} == {
        (Operation.ALL_REDUCE, "bfloat16"): (16384,),
        (Operation.ALL_GATHER, "bfloat16"): (4 * 4096 * 2,),
        (Operation.SEND_RECV, "float"): (262144,),
    }


def test_time_weighs_where_it_is_known_and_count_otherwise() -> None:
    often = [entry("nccl:all_reduce", 4096, 0.01) for _ in range(9)]
    long = [entry("nccl:all_reduce", 1 << 20, 5.0)]
    by_time = profile_of(evidence(*often, *long), name="x", most=1)
    assert by_time.profile.steps[0].sizes == (2 << 20,)
    assert "weighed by time" in by_time.notes[0]
    by_count = profile_of(evidence(*often, *long), name="x", most=1, weight=Weight.COUNT)
    assert by_count.profile.steps[0].sizes == (8192,)
    assert "90.0%" in by_count.notes[0]
    untimed = profile_of(
        evidence(*[entry("nccl:all_reduce", 4096)] * 3, entry("nccl:all_reduce", 1 << 20)), name="x", most=1
    )
    assert untimed.profile.steps[0].sizes == (8192,)
    with pytest.raises(NothingRecorded, match="TORCH_NCCL_ENABLE_TIMING"):
        profile_of(evidence(entry("nccl:all_reduce", 4096)), name="x", weight=Weight.TIME)


def test_many_sizes_become_few_that_stand_for_their_neighbours() -> None:
    prompts = [entry("nccl:all_reduce", 8192 * tokens) for tokens in range(1, 400)]
    made = profile_of(evidence(*prompts), name="x", most=8)
    (step,) = made.profile.steps
    assert len(step.sizes) == 8
    assert list(step.sizes) == sorted(step.sizes)
    assert "399 operations" in made.notes[0]


def test_what_no_benchmark_has_is_left_out_and_named() -> None:
    made = profile_of(
        evidence(
            entry("nccl:all_reduce", 8192),
            entry("nccl:gather", 8192),
            entry("nccl:all_reduce", 1),
            entry("gloo:all_reduce", 8192),
        ),
        name="x",
    )
    assert len(made.profile.steps) == 1
    text = " ".join(made.notes)
    assert "gather" in text
    assert "1 operations below 1024 bytes" in text
    assert "CUDA graphs" in text


def test_without_dumps_or_with_nothing_in_them_it_is_said_why() -> None:
    with pytest.raises(NothingRecorded, match="no Flight Recorder dump"):
        profile_of(Evidence(), name="x")
    with pytest.raises(NothingRecorded, match="below 1024 bytes"):
        profile_of(evidence(entry("nccl:all_reduce", 1)), name="x")


def test_a_real_instances_dumps_give_a_profile_that_reads_back() -> None:
    made = profile_of(load(CASES / "healthy-tp4" / "input.tar.zst"), name="tp4")
    assert {step.operation for step in made.profile.steps} == {Operation.ALL_REDUCE, Operation.ALL_GATHER}
    assert read_profile(as_yaml(made.profile, made.notes).encode(), "x") == made.profile
    assert "4 Flight Recorder dumps" in made.notes[0]
