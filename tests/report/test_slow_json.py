"""Slow collectives as JSON: plain, finite, complete."""

from __future__ import annotations

import json

import pytest

from build_slow import context_of, tensor_parallel
from rankmuster.diagnose.slow.baseline import add
from rankmuster.diagnose.slow.baseline_compare import compare
from rankmuster.diagnose.slow.measure import measure
from rankmuster.report.slow_json import plain


def test_it_holds_everything_and_is_finite() -> None:
    report = measure(context_of(tensor_parallel(8, 4, steps=300, late={5: 12.0}, absent=frozenset({2}))))
    found = json.loads(json.dumps(plain(report), allow_nan=False))
    assert found["schema"] == "rankmuster.slow/1"
    assert found["slow"] == ["late rank"]
    assert found["late"][0]["rank"] == 5
    assert found["late"][0]["pattern"] == "persistent"
    assert found["late"][0]["since"] is None
    assert found["timing"] == "events"
    assert len(found["ranks"]) == len(report.ranks)
    row = found["ranks"][0]
    assert row["duration_ms"]["p999"] is None
    assert row["duration_ms"]["n"] == row["n"] == 300
    assert found["operations"][0]["without_window"] == [2]
    assert found["operations"][0]["transfer_ms"]["p50"] > 0
    assert "baseline" not in found


def test_the_comparison_goes_with_it() -> None:
    report = measure(context_of(tensor_parallel(8, 4, steps=300)))
    comparison = compare(add(None, report), report)
    found = json.loads(json.dumps(plain(report, comparison), allow_nan=False))["baseline"]
    assert found["provisional"] is True
    assert found["compared"][0]["ratios"][0]["ratio"] == pytest.approx(1.0)
    assert found["differs"] == []


def test_without_dumps_there_is_a_note() -> None:
    found = json.loads(json.dumps(plain(measure(context_of({}))), allow_nan=False))
    assert found["timing"] == "none"
    assert found["ranks"] == found["operations"] == []
    assert found["notes"]
