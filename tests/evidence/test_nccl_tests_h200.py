"""Real output of nccl-tests 2.19.6 on four H200s: every number in it is read, and what was measured comes out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rankmuster.evidence.nccl_tests import read_json, read_text
from rankmuster.evidence.nccl_tests_text import tables
from rankmuster.model.benchmark import BenchmarkRun, Cell, Measurement, Operation, RunState

FOLDER = Path(__file__).parent / "nccl_tests_h200"
TEXTS = sorted(path.name for path in FOLDER.glob("*.txt"))
JSONS = sorted(path.name for path in FOLDER.glob("*.json"))
HEALTHY = tuple(f"ar_{number}.txt" for number in range(1, 9))
MIB = 1 << 20

ROW = re.compile(r"^\s+(\d+)\s+(\d+)\s+float\s+(\w+)\s+(-1|\d+)((?:\s+(?:[\d.]+|N/A))+)\s*$")


def text_run(name: str) -> BenchmarkRun:
    return read_text((FOLDER / name).read_bytes(), name)


def measured(name: str, size: int, *, in_place: bool = False) -> Measurement:
    cell = Cell(Operation.ALL_REDUCE, size, "float", in_place)
    return next(one for one in text_run(name).measurements if one.cell == cell)


@pytest.mark.parametrize("name", TEXTS)
def test_every_number_of_every_row_is_read(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    wanted = [found for line in data.decode().splitlines() if (found := ROW.match(line))]
    run = text_run(name)
    by_cell = {(one.cell.size_bytes, one.cell.in_place): one for one in run.measurements}
    assert len(by_cell) == 2 * len(wanted)
    for found in wanted:
        numbers = found[5].split()
        half = len(numbers) // 2
        for in_place in (False, True):
            own = numbers[half:] if in_place else numbers[:half]
            one = by_cell[(int(found[1]), in_place)]
            assert (one.time_us, one.algbw, one.busbw) == tuple(float(word) for word in own[:3])
            assert one.wrong == (None if own[3] == "N/A" else int(own[3]))
            if half > 4:
                assert one.spread is not None
                assert (one.spread.min_us, one.spread.max_us, one.spread.p99_us, one.spread.cv_percent) == tuple(
                    float(word) for word in own[4:8]
                )


@pytest.mark.parametrize(
    ("size", "times", "bandwidths"),
    [
        (8 << 10, (26, 42), (0.29, 0.47)),
        (MIB, (35, 51), (31, 45)),
        (4 * MIB, (43, 52), (121, 146)),
        (16 * MIB, (100.9, 102.8), (245, 250)),
        (64 * MIB, (322, 330), (305, 312)),
        (256 * MIB, (1184, 1199), (336, 340)),
    ],
)
def test_what_a_healthy_machine_measures_comes_out(
    size: int, times: tuple[float, float], bandwidths: tuple[float, float]
) -> None:
    """The table of figures in which these runs were handed on; its digits are rounded."""
    found = [measured(name, size) for name in HEALTHY]
    seen = (min(one.time_us for one in found), max(one.time_us for one in found))
    assert seen == pytest.approx(times, abs=0.7 if times[0] != 100.9 else 0.05)
    rates = (min(one.busbw for one in found), max(one.busbw for one in found))
    assert rates == pytest.approx(bandwidths, abs=0.5 if size > MIB >> 1 else 0.005)


@pytest.mark.parametrize(
    ("name", "bandwidths"),
    [
        ("ar_2ch.txt", {16: 48, 64: 49, 256: 50}),
        ("ar_ll.txt", {16: 133, 64: 144, 256: 147}),
        ("nt_ar_nop2p.txt", {1: 16, 4: 28, 16: 29, 64: 24, 256: 24}),
        ("ar_contended.txt", {16: 114, 64: 124, 256: 152}),
    ],
)
def test_what_a_changed_machine_measures_comes_out(name: str, bandwidths: dict[int, int]) -> None:
    assert {size: round(measured(name, size * MIB).busbw) for size in bandwidths} == bandwidths


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "ar_toomany.txt"])
def test_whole_outputs_are_complete_and_say_who_took_part(name: str) -> None:
    run = text_run(name)
    assert (run.state, run.reason) == (RunState.COMPLETE, "")
    assert (run.tool_version, run.nccl_version) == ("2.19.6", "2.28.9")
    assert [(rank.rank, rank.host, rank.device) for rank in run.ranks] == [(one, "vm", one) for one in range(4)]
    assert [rank.bus_id for rank in run.ranks] == ["0000:00:06", "0000:00:07", "0000:00:08", "0000:00:09"]
    assert {rank.gpu_model for rank in run.ranks} == {"NVIDIA H200"}


def test_more_gpus_than_there_are_is_an_error_with_the_tools_own_words() -> None:
    run = text_run("ar_toomany.txt")
    assert run.state is RunState.ERROR
    assert "Invalid number of GPUs: 9 requested but only 4 were found." in run.reason
    assert run.measurements == ()


@pytest.mark.parametrize("name", JSONS)
def test_a_json_says_what_its_text_says_with_more_digits(name: str) -> None:
    run = read_json((FOLDER / name).read_bytes(), name)
    assert (run.state, run.reason, run.nccl_version) == (RunState.COMPLETE, "", "2.28.9")
    assert len(run.measurements) == 32
    assert [rank.rank for rank in run.ranks] == [0, 1, 2, 3]
    factor = run.measurements[0].cell.operation.bus_factor(4)
    for one in run.measurements:
        assert one.algbw == pytest.approx(one.cell.size_bytes / one.time_us / 1000, rel=1e-3)
        assert one.busbw == pytest.approx(one.algbw * factor, rel=1e-3)


def test_a_json_and_the_text_of_the_same_run_agree() -> None:
    text = {one.cell: one for one in text_run("ar_2ch.txt").measurements}
    for one in read_json((FOLDER / "nccl-tests-ar_2ch.json").read_bytes(), "x").measurements:
        assert text[one.cell].time_us == pytest.approx(one.time_us, rel=1e-3)
        assert text[one.cell].busbw == pytest.approx(one.busbw, abs=0.006)


def test_iterations_of_a_json_are_kept_and_agree_with_what_it_says_of_them() -> None:
    run = read_json((FOLDER / "nccl-tests-ar_1.json").read_bytes(), "x")
    for one in run.measurements:
        assert one.spread is not None
        assert len(one.iterations_us) == 50
        assert min(one.iterations_us) == one.spread.min_us
        assert sorted(one.iterations_us)[25] == one.spread.p50_us


@pytest.mark.parametrize("name", JSONS)
def test_of_an_environment_no_secret_is_kept(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    assert b"planted-secret" in data
    run = read_json(data, name)
    assert run.environment == (("NCCL_NVLS_ENABLE", "0"),)
    assert "planted-secret" not in repr(run)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_cut_anywhere_is_never_complete_and_never_gives_a_number_that_is_not_in_it(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    whole = {one.cell: (one.time_us, one.algbw, one.busbw) for one in text_run(name).measurements}
    summary = data.find(b"# Avg bus bandwidth")
    for end in range(0, summary if summary > 0 else len(data) - 40, 61):
        run = read_text(data[:end], name)
        assert run.state is not RunState.COMPLETE
        assert run.reason
        for one in run.measurements:
            assert whole[one.cell] == (one.time_us, one.algbw, one.busbw)


@pytest.mark.parametrize("name", JSONS)
def test_a_json_cut_anywhere_keeps_its_whole_results_and_is_not_complete(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    whole = {one.cell: one for one in read_json(data, name).measurements}
    most = 0
    for end in range(0, len(data) - 20, 997):
        run = read_json(data[:end], name)
        assert run.state is not RunState.COMPLETE
        assert run.reason
        most = max(most, len(run.measurements))
        for one in run.measurements:
            assert whole[one.cell].time_us == one.time_us
            assert whole[one.cell].iterations_us == one.iterations_us
    assert most >= 28


def test_the_tables_of_a_log_of_all_runs_are_told_apart() -> None:
    data = b"".join((FOLDER / name).read_bytes() + b"\n" for name in TEXTS)
    found = tables(data)
    assert [table.program for table in found] == [tables((FOLDER / name).read_bytes())[0].program for name in TEXTS]
    assert sum(len(table.rows) for table in found) == 16 * (len(TEXTS) - 1)
