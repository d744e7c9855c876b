"""The pieces of the benchmark that can be right or wrong: what is measured, how answers are counted, what is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from benchmarks import flight_bench
from benchmarks.flight import accuracy, grid, ours, speed, world
from benchmarks.flight.measure import family_peak_mb, machine, measure
from benchmarks.flight.score import Answer, Score
from benchmarks.flight.settings import FaultKind
from benchmarks.flight.truth import Truth


def judged(kind: str, named: set[int] | None, guilty: tuple[int, ...] = (2,)) -> accuracy.Judged:
    truth = Truth(kind, guilty, False, False, True, True, (), (), (), (), "TP", 4)
    answer = Answer(None if named is None else frozenset(named), fault=True, said="said")
    return accuracy.Judged("point", kind, "tp4", truth, "again", {"rankmuster": answer})


def test_a_process_is_measured_to_its_end() -> None:
    block = "import time; held = bytearray(150_000_000); print('first'); print('second'); time.sleep(0.2)"
    cost = measure([sys.executable, "-c", block])
    assert cost.seconds > 0.2
    assert cost.peak_mb > 150
    assert (cost.status, cost.first_line) == (0, "first")
    assert measure([sys.executable, "-c", "raise SystemExit(3)"]).status == 3
    assert measure([sys.executable, "-c", "import os; print(os.environ['OWN'])"], env={"OWN": "x"}).first_line == "x"


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's /proc")
def test_memory_of_what_a_command_starts_counts() -> None:
    inner = "held = bytearray(150_000_000); import time; time.sleep(0.5)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    assert family_peak_mb([sys.executable, "-c", outer]) > 150


def test_what_hangs_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.flight import measure as measuring

    monkeypatch.setattr(measuring, "LONGEST_SECONDS", 0.3)
    cost = measure([sys.executable, "-c", "import time; time.sleep(60)"], runs=3)
    assert cost.seconds < 30
    assert cost.status == -9
    assert "ended by signal 9" in cost.first_line


def test_the_machine_and_the_versions_are_told() -> None:
    text = "\n".join(machine())
    for word in ("UTC", "commit", "cores", "Python", "numpy", "rankmuster", "load"):
        assert word in text


def test_answers_are_counted_by_row() -> None:
    tally = accuracy.Tally()
    for named in ({2}, {2}, {3}, set(), None):
        tally.add("dead", judged("dead", named))
    tally.add("skip", judged("skip", {2}))
    lines = tally.table(["rankmuster"], "fault")
    assert lines[2:] == [
        "| dead | 5 | 2 | 1 | 1 | 1 |",
        "| skip | 1 | 1 | 0 | 0 | 0 |",
        "| **all** | 6 | 3 | 1 | 1 | 1 |",
    ]
    assert {line.count("|") for line in lines} == {7}


def test_wrong_answers_are_told_with_how_to_make_them_again() -> None:
    assert flight_bench.wrongs(judged("dead", {2})) == []
    (line,) = flight_bench.wrongs(judged("dead", {3}))
    assert "named [3], truth [2]" in line
    assert "`again`" in line


def test_a_captured_case_of_a_lost_rank_may_end_in_suspicion() -> None:
    told = {"accept_class": ["process_or_device_lost"], "culprits": [3]}
    assert accuracy.truth_of_case(told, {0, 1, 2}).suspicion_is_right
    assert not accuracy.truth_of_case(told, {0, 1, 2, 3}).suspicion_is_right
    assert accuracy.truth_of_case({"accept_class": ["healthy"], "culprits": []}, {0}).is_fault is False
    allowed = accuracy.truth_of_case({"accept_class": ["transport_stall"], "culprits_allowed": [1]}, {0, 1})
    assert allowed.may_be_silent


def test_the_same_point_is_judged_alike_in_memory_and_on_disk(tmp_path: Path) -> None:
    from benchmarks.flight import generate

    point = next(point for point in grid.points() if point.job.fault.kind is FaultKind.HOST_STOP)
    made = world.make(point.job)
    generate.write(made, tmp_path)
    answer = ours.of_world(made)
    assert answer == ours.of_path(tmp_path / "input")
    assert answer.culprits is not None
    assert json.loads((tmp_path / "truth.json").read_text())["culprits"] == list(made.truth.culprits)


def test_a_crash_is_an_answer(tmp_path: Path) -> None:
    answer = ours.of_path(tmp_path / "absent")
    assert answer.culprits is None
    assert "EvidenceMissing" in answer.said
    assert judged("x", None).score("rankmuster") is Score.CRASH


def test_worlds_to_measure_are_whole_replicas() -> None:
    job = speed.job_of(64)
    assert (job.ranks, job.entries, job.frames) == (64, 2000, 30)
    with pytest.raises(ValueError, match="no multiple of 32"):
        speed.job_of(100)
