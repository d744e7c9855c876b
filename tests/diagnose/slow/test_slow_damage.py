"""Dumps that say impossible things cost what they say, never the report."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from build_slow import context_of, play, tensor_parallel
from rankmuster.diagnose.slow.baseline import BaselineRefused, add
from rankmuster.diagnose.slow.baseline_compare import compare
from rankmuster.diagnose.slow.baseline_file import dumps as write_baseline
from rankmuster.diagnose.slow.baseline_file import loads as read_baseline
from rankmuster.diagnose.slow.late import SLOW
from rankmuster.diagnose.slow.measure import measure
from rankmuster.model.flight import FlightDump
from rankmuster.model.slow import SlowReport
from rankmuster.report.slow_json import plain
from rankmuster.report.slow_text import render

WORLD = tensor_parallel(8, 4, steps=200)


def everything(dumps: dict[int, FlightDump]) -> SlowReport:
    """The report, after all that is made of it was made."""
    report = measure(context_of(dumps), collectives=True)
    render(report, Console(file=io.StringIO(), width=100))
    json.dumps(plain(report), allow_nan=False)
    try:
        baseline = add(None, report, even_if_slow=True)
    except BaselineRefused:
        return report
    again = read_baseline(write_baseline(baseline))
    render(report, Console(file=io.StringIO(), width=200), compare(again, report))
    return report


def with_column(dump: FlightDump, **columns: object) -> FlightDump:
    return replace(dump, columns=replace(dump.columns, **columns))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-5.0, float("inf"), float("-inf"), float("nan"), 1e300, 1e18])
def test_one_rank_with_impossible_durations_costs_its_rank(value: float) -> None:
    dumps = play(WORLD)
    dumps[5] = with_column(dumps[5], duration_ms=np.full(len(dumps[5].columns), value))
    report = everything(dumps)
    assert report.slow == ()
    assert all(5 not in one.ranks for one in report.operations)
    assert any("rank 5" in note for note in report.notes)


@pytest.mark.parametrize("value", [-5.0, float("nan"), 1e300])
def test_single_impossible_durations_cost_their_collectives(value: float) -> None:
    dumps = play(WORLD)
    durations = dumps[5].columns.duration_ms.copy()
    durations[::10] = value
    dumps[5] = with_column(dumps[5], duration_ms=durations)
    report = everything(dumps)
    assert report.slow == ()
    whole = {one.label: one.collectives for one in report.operations if one.label in ("tp0", "tp1")}
    assert whole["tp1"] < whole["tp0"]


@pytest.mark.parametrize("value", [0, -(1 << 62), (1 << 63) - 1])
def test_times_that_cannot_be_convict_nobody(value: int) -> None:
    dumps = play(WORLD)
    for rank in dumps:
        dumps[rank] = with_column(dumps[rank], created_ns=np.full(len(dumps[rank].columns), value))
    report = everything(dumps)
    assert [one for one in report.late if one.pattern in SLOW] == []


def test_numbers_that_jump_by_billions_are_only_numbers() -> None:
    dumps = play(WORLD)
    for rank in dumps:
        seq = dumps[rank].columns.seq.copy()
        seq[100:] += 1 << 60
        dumps[rank] = with_column(dumps[rank], seq=seq)
    report = everything(dumps)
    assert sum(one.collectives for one in report.operations) == 200 * 5


@pytest.mark.parametrize("seed", range(12))
def test_columns_of_noise_never_break_the_report(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dumps = play(WORLD)
    for rank in rng.choice(8, int(rng.integers(1, 9)), replace=False).tolist():
        columns = dumps[rank].columns
        count = len(columns)
        noise = rng.choice([np.nan, np.inf, -1.0, 0.0, 1e-9, 1.0, 1e6, 1e12], count)
        fields: dict[str, object] = {
            "duration_ms": np.where(rng.random(count) < 0.5, noise, columns.duration_ms),
            "created_ns": rng.permutation(columns.created_ns),
            "seq": rng.permutation(columns.seq) if seed % 2 else rng.integers(-3, 50, count),
            "call": rng.integers(0, len(columns.calls), count).astype(np.int32),
            "state": rng.integers(0, 4, count).astype(np.int8),
            "retired": rng.random(count) < 0.5,
        }
        chosen = rng.choice(sorted(fields), 3, replace=False).tolist()
        dumps[rank] = with_column(dumps[rank], **{name: fields[name] for name in chosen})
    everything(dumps)
