"""The tables of docs/measured.md are those of the last whole simulation, and hold what is claimed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("admission_tables", ROOT / "tools" / "admission_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "measured" / "admission-statistics.json").read_text())
    return found


def test_nobody_typed_the_tables(tables: ModuleType, found: dict[str, Any]) -> None:
    assert tables.section(found) in (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    assert found["scale"] == 1


def test_at_most_one_in_a_hundred_healthy_admissions_is_refused(found: dict[str, Any]) -> None:
    for row in found["studies"]["healthy"]:
        assert row["refused"] <= 0.01 * row["admissions"], row
    for row in found["studies"]["growth"]:
        assert row["healthy_refused"] <= 0.01 * row["healthy"], row


def test_with_thirty_runs_a_tenth_less_bandwidth_is_found_in_99_of_a_hundred(found: dict[str, Any]) -> None:
    rows = [row for row in found["studies"]["found"] if row["loss_percent"] >= 10 and row["noise"] == 1]
    assert {row["nodes"] for row in rows} == {30, 6, 1}
    for row in rows + [row for row in found["studies"]["contaminated"] if row["loss_percent"] == 10]:
        assert row["refused"] >= 0.99 * row["admissions"], row


def test_a_rollout_that_costs_a_few_per_cent_is_found_and_steady_classes_show_none(found: dict[str, Any]) -> None:
    for row in found["studies"]["changes"]:
        if row["change"] == "none":
            assert row["elsewhere"] <= 0.01 * row["series"], row
        elif row["change"] in ("all at once, 3 %", "all at once, 5 %", "all at once, 10 %"):
            assert row["found"] >= 0.95 * row["series"], row
