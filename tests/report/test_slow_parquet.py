"""Slow collectives as parquet: what was measured comes back with units in its names; without pyarrow it says so."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from build_slow import SlowWorld, context_of, tensor_parallel
from rankmuster.diagnose.slow.measure import measure
from rankmuster.report.slow_parquet import write, write_collectives

WORLD: SlowWorld = tensor_parallel(8, 4, steps=120, late={5: 12.0})


def table_of(data: bytes) -> Any:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    return parquet.read_table(arrow.BufferReader(data))


def test_one_row_per_kind_and_rank() -> None:
    pytest.importorskip("pyarrow")
    report = measure(context_of(WORLD))
    table = table_of(write(report))
    assert table.num_rows == len(report.ranks) == 8 * 3
    rows = table.to_pylist()
    late = [row for row in rows if row["rank"] == 5 and row["group"] == "tp1" and row["op"] == "all_reduce"]
    assert late[0]["behind_p50_ms"] == pytest.approx(12.0, rel=0.2)
    assert late[0]["duration_p999_ms"] is None
    assert late[0]["message_bytes"] == 131072
    assert (late[0]["size"], late[0]["dtype"], late[0]["n"]) == ("16 x 4096", "BFloat16", 120)
    assert table.schema.metadata[b"schema"] == b"rankmuster.slow-parquet/1"


def test_one_row_per_collective() -> None:
    pytest.importorskip("pyarrow")
    report = measure(context_of(WORLD), collectives=True)
    table = table_of(write_collectives(report))
    assert table.num_rows == 120 * 5
    rows = [row for row in table.to_pylist() if row["group"] == "tp1" and row["op"] == "all_reduce"]
    assert {row["last_rank"] for row in rows} == {5}
    assert np.median([row["wait_ms"] for row in rows]) == pytest.approx(12.0, rel=0.2)
    assert rows[0]["seq"] == 1
    assert rows[0]["created_unix_s"] == pytest.approx(1_795_980_000.0, abs=10)


def test_nothing_measured_is_a_file_without_rows() -> None:
    pytest.importorskip("pyarrow")
    report = measure(context_of({}))
    assert table_of(write(report)).num_rows == 0
    assert table_of(write_collectives(report)).num_rows == 0


def test_without_pyarrow_the_message_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from rankmuster.diagnose import context\n"
        "from rankmuster.diagnose.slow.measure import measure\n"
        "from rankmuster.diagnose.thresholds import DEFAULTS\n"
        "from rankmuster.evidence.bundle import Evidence\n"
        "from rankmuster.report.slow_parquet import ParquetMissing, write\n"
        "try:\n"
        "    write(measure(context.build(Evidence(), DEFAULTS)))\n"
        "except ParquetMissing as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install 'rankmuster[parquet]'" in done.stdout


def test_pyarrow_is_imported_only_when_something_is_written() -> None:
    code = "import rankmuster.report.slow_parquet, sys; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
