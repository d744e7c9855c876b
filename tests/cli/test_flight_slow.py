"""`rankmuster flight --slow`: what it says, and the files it reads and writes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

CASES = Path(__file__).parents[1] / "cases"


def case(name: str) -> str:
    return str(CASES / name / "input.tar.zst")


def test_the_late_rank_of_a_capture_is_told_with_since_when_and_by_how_much(command: Run) -> None:
    done = command("flight", case("one-slow-rank"), "--slow", "--width", "140")
    assert done.returncode == 1
    assert "slow: rank 1 comes late (persistent" in done.stdout
    assert "TRANSFER" in done.stdout
    assert "WAITING" in done.stdout


def test_where_slowness_is_what_is_wrong_it_is_told_unasked(command: Run) -> None:
    assert "slow: rank 1 comes late" in command("flight", case("one-slow-rank")).stdout
    assert "TRANSFER" not in command("flight", case("rank-stops-calling")).stdout


def test_as_json_it_stands_in_the_report(command: Run) -> None:
    done = command("flight", case("one-slow-rank"), "--slow", "--format", "json")
    slow = json.loads(done.stdout)["slow"]
    assert slow["schema"] == "rankmuster.slow/1"
    assert json.loads(command("flight", case("rank-stops-calling"), "--format", "json").stdout)["slow"] is None


def test_distributions_and_collectives_go_to_parquet_files(command: Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    by_rank, by_number = tmp_path / "a.parquet", tmp_path / "b.parquet"
    done = command("flight", case("one-slow-rank"), "--parquet", str(by_rank), "--parquet-collectives", str(by_number))
    assert done.returncode == 1
    assert f"wrote {by_rank}" in done.stderr
    assert parquet.read_table(by_rank).num_rows >= 4
    assert parquet.read_table(by_number).num_rows > 1000


def test_a_slow_window_becomes_no_baseline_and_nothing_is_left_behind(command: Run, tmp_path: Path) -> None:
    target = tmp_path / "baseline.json"
    done = command("flight", case("one-slow-rank"), "--save-baseline", str(target))
    assert done.returncode == 3
    assert "nothing was saved" in done.stderr
    assert "rank 1 late" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_baseline_is_saved_and_compared_with(command: Run, tmp_path: Path) -> None:
    target = tmp_path / "baseline.json"
    saved = command("flight", case("slow-root"), "--save-baseline", str(target))
    if saved.returncode == 3:
        pytest.fail(saved.stderr)
    assert "a baseline of 1 window(s)" in saved.stderr
    again = command("flight", case("slow-root"), "--save-baseline", str(target))
    assert again.returncode == 3
    assert "the same dumps twice are no second measurement" in again.stderr
    compared = command("flight", case("one-slow-rank"), "--baseline", str(target), "--width", "140")
    assert "AGAINST THE BASELINE" in compared.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read the baseline"),
        (b"", "baseline"),
        (b"{}", "baseline"),
        (b'{"schema": "rankmuster.flight-baseline/9"}', "baseline"),
        (b"\x80\x02}q\x00.", "baseline"),
    ],
)
def test_a_baseline_that_is_none_is_said_and_nothing_is_told(
    command: Run, tmp_path: Path, content: bytes | None, said: str
) -> None:
    given = tmp_path / "given.json"
    if content is not None:
        given.write_bytes(content)
    done = command("flight", case("one-slow-rank"), "--baseline", str(given))
    assert done.returncode == 3
    assert said in done.stderr
    assert done.stdout == ""
    if content is not None:
        kept = command("flight", case("slow-root"), "--save-baseline", str(given))
        assert kept.returncode == 3
        assert given.read_bytes() == content


@pytest.mark.parametrize("option", ["--baseline", "--save-baseline", "--parquet", "--parquet-collectives"])
def test_an_option_that_is_empty_is_a_variable_that_is_not_set(command: Run, option: str) -> None:
    done = command("flight", case("one-slow-rank"), option, "")
    assert done.returncode == 3
    assert f"{option} is empty (a variable that is not set?)" in done.stderr
