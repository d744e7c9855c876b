"""nccl-tests' output of every age and in every state: read to the numbers in it, or refused with the reason."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from nccl_tests_read import of
from nccl_tests_sample import MIDDLE, NEW, OLD, Shape, average, output
from rankmuster.evidence.nccl_tests import read_runs
from rankmuster.evidence.nccl_tests_merge import WORST_FIRST, merged
from rankmuster.evidence.nccl_tests_text import tables
from rankmuster.model.benchmark import BenchmarkRun, Operation, RunState

PLATEAU = tuple(1 << shift for shift in range(20, 26))
NAMES = {
    "all_reduce": Operation.ALL_REDUCE,
    "all_gather": Operation.ALL_GATHER,
    "reduce_scatter": Operation.REDUCE_SCATTER,
    "alltoall": Operation.ALL_TO_ALL,
    "broadcast": Operation.BROADCAST,
    "reduce": Operation.REDUCE,
    "sendrecv": Operation.SEND_RECV,
}


def operations(run: BenchmarkRun) -> set[Operation]:
    return {one.cell.operation for one in run.measurements}


@pytest.mark.parametrize("shape", [OLD, MIDDLE, NEW], ids=["old", "middle", "new"])
@pytest.mark.parametrize("operation", list(NAMES))
def test_every_age_of_every_operation_reads_to_its_numbers(operation: str, shape: Shape) -> None:
    inside = "N/A" if operation in ("alltoall", "sendrecv") else None
    wrong = "0e+00" if shape is OLD else "0"
    run = of(
        output(operation, sizes=PLATEAU, shape=shape, wrong=wrong, inside=inside, footer=True).replace("8 FAI", "0 OK")
    )
    if shape is OLD:
        run = of(output(operation, sizes=PLATEAU, shape=shape, wrong="N/A"))
    assert operations(run) == {NAMES[operation]}, run.reason
    assert run.state is RunState.COMPLETE, run.reason
    assert len(run.measurements) == 2 * len(PLATEAU)
    for one in run.measurements:
        assert one.time_us == pytest.approx(10 + one.cell.size_bytes / 300_000, abs=0.006)
        assert one.busbw == pytest.approx(one.algbw * NAMES[operation].bus_factor(8), rel=0.01)


def test_the_old_error_column_is_a_difference_and_counts_nothing() -> None:
    run = of(output(shape=OLD, wrong="4e-07").replace("4 FAILED", "0 OK"), "all_reduce.log")
    assert run.state is RunState.COMPLETE
    assert {one.wrong for one in run.measurements} == {0}
    run = of(output(shape=OLD, wrong="4e-07").replace("4 FAILED", "3 FAILED"), "all_reduce.log")
    assert run.state is RunState.WRONG


def test_per_iteration_columns_and_timestamps() -> None:
    text = "".join(
        f"{line} 2026-11-29 19:25:26\n" if line.lstrip()[:1].isdigit() else f"{line}\n"
        for line in output(timed=True).splitlines()
    )
    run = of(text)
    assert run.state is RunState.COMPLETE, run.reason
    spread = run.measurements[0].spread
    assert spread is not None
    assert (spread.p50_us, spread.cv_percent) == (None, 5.25)


def test_na_means_that_nothing_was_checked_which_is_said() -> None:
    run = of(output(wrong="N/A"))
    assert run.state is RunState.COMPLETE
    assert {one.wrong for one in run.measurements} == {None}
    assert "not checked" in run.reason


def test_rows_of_no_bytes_measure_nothing_and_are_no_gap() -> None:
    text = output(
        "all_gather", sizes=PLATEAU, settings="# nThread 1 nGpus 8 minBytes 1 maxBytes 33554432 step: 2(factor)"
    )
    half = "    16.83    0.00    0.00      0"
    empty = f"           0             0     float    none      -1{half}{half}\n"
    begin = text.index("     1048576")
    own = average("all_gather", 8, PLATEAU)
    over_all = own * len(PLATEAU) / (len(PLATEAU) + 20)
    run = of((text[:begin] + empty * 20 + text[begin:]).replace(f": {own:g} ", f": {over_all:g} "))
    assert run.state is RunState.COMPLETE, run.reason
    assert {one.cell.size_bytes for one in run.measurements} == set(PLATEAU)


def test_a_list_of_ranks_over_hosts_gives_each_its_host() -> None:
    run = of(output(ranks=32, hosts=8, sizes=PLATEAU, shape=MIDDLE))
    assert operations(run) == {Operation.ALL_REDUCE}
    assert len({rank.host for rank in run.ranks}) == 8
    assert [rank.device for rank in run.ranks[:5]] == [0, 1, 2, 3, 0]
    assert run.ranks[0].bus_id is None  # an old list has the bus alone, which is no address


def test_a_list_of_ranks_with_the_middle_left_out_still_says_how_many_there_are() -> None:
    text = output(ranks=16, sizes=PLATEAU, shape=MIDDLE)
    kept = [line for line in text.splitlines() if not any(f"Rank {rank:2d} " in line for rank in range(1, 15))]
    run = of("\n".join(kept) + "\n")
    assert operations(run) == {Operation.ALL_REDUCE}
    assert [rank.rank for rank in run.ranks] == [0, 15]


def test_several_tables_of_one_log_are_several_runs() -> None:
    log = (
        "starting\n" + output("all_reduce") + "some words\n" + output("all_gather", sizes=PLATEAU) + output("alltoall")
    )
    runs = read_runs(log.encode(), "job.log")
    assert [operations(run) for run in runs] == [
        {Operation.ALL_REDUCE},
        {Operation.ALL_GATHER},
        {Operation.ALL_TO_ALL},
    ]
    assert {run.state for run in runs} == {RunState.COMPLETE}
    whole = of(log)
    assert len(whole.measurements) == sum(len(run.measurements) for run in runs)


def test_a_run_that_broke_off_between_two_others_is_the_one_that_is_not_complete() -> None:
    broken = (
        output("all_gather", sizes=PLATEAU, footer=False)
        + "node01: Test NCCL failure common.cu:958 'remote process exited'\n"
    )
    runs = read_runs((output() + broken + output("alltoall")).encode(), "job.log")
    assert [run.state for run in runs] == [RunState.COMPLETE, RunState.ERROR, RunState.COMPLETE]
    assert "Test NCCL failure common.cu:958 'remote process exited'" in runs[1].reason


NCCL = "node01:3442:3460 [0] NCCL INFO Channel 00/24 : 0[0] -> 1[1] via P2P/CUMEM"


def test_nccls_own_lines_between_rows_are_read_for_what_they_are() -> None:
    lines = output().splitlines()
    woven = "\n".join(text for line in lines for text in (NCCL, line)) + "\n"
    run = of(woven)
    assert run.state is RunState.COMPLETE, run.reason
    assert len(run.measurements) == 8
    assert run.transports == ("P2P/CUMEM",)


@pytest.mark.parametrize("cut", [52, 60, 76, 84])
def test_a_row_that_nccl_wrote_into_is_put_together(cut: int) -> None:
    lines = output(sizes=PLATEAU).splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("     2097152"))
    own = lines[place]
    while own[cut - 1] != " " and own[cut] != " ":
        cut += 1
    lines[place : place + 1] = [own[:cut] + NCCL, NCCL, own[cut:]]
    run = of("\n".join(lines) + "\n")
    assert run.state is RunState.COMPLETE, run.reason
    assert len(run.measurements) == 2 * len(PLATEAU)


@pytest.mark.parametrize(
    "label",
    ["[1,0]<stdout>:", "[1,0]<stdout>: ", "[prterun-node01-4711@1,0]<stdout>: ", "0: ", "[0] ", "   [1,0]<stdout>:"],
)
def test_a_launchers_label_stands_in_nobodys_way(label: str) -> None:
    run = of("".join(f"{label}{line}\n" for line in output(sizes=PLATEAU).splitlines()))
    assert run.state is RunState.COMPLETE, run.reason
    assert len(run.measurements) == 2 * len(PLATEAU)
    assert len(run.ranks) == 8


def test_tables_of_several_writers_woven_into_each_other_are_told_apart() -> None:
    first, second = output(host="node01").splitlines(), output("all_gather", sizes=PLATEAU, host="node02").splitlines()
    woven = ""
    for place in range(max(len(first), len(second))):
        woven += f"0: {first[place]}\n" if place < len(first) else ""
        woven += f"1: {second[place]}\n" if place < len(second) else ""
    runs = read_runs(woven.encode(), "srun.log")
    assert {(run.ranks[0].host, *operations(run), run.state) for run in runs} == {
        ("node01", Operation.ALL_REDUCE, RunState.COMPLETE),
        ("node02", Operation.ALL_GATHER, RunState.COMPLETE),
    }


def test_what_another_rank_says_of_a_failure_is_said_of_the_table() -> None:
    text = "".join(f"[1,0]<stdout>:{line}\n" for line in output(footer=False).splitlines())
    run = of(text + "[1,5]<stderr>:node01: Test CUDA failure common.cu:303 'unspecified launch failure'\n")
    assert run.state is RunState.ERROR
    assert "Test CUDA failure common.cu:303" in run.reason


def test_numbers_with_decimal_commas_are_refused_and_not_misread() -> None:
    lines = [line.replace(".", ",") if line.lstrip()[:1].isdigit() else line for line in output().splitlines()]
    run = of("\n".join(lines) + "\n")
    assert run.state is RunState.ERROR
    assert run.measurements == ()
    assert "decimal comma" in run.reason
    assert "LC_ALL=C" in run.reason


def test_an_operation_that_nobody_names_and_the_numbers_do_not_tell_stays_unknown() -> None:
    text = output("all_gather", sizes=PLATEAU, shape=MIDDLE, wrong="N/A")
    run = of(text)
    assert run.state is RunState.ERROR
    assert run.measurements == ()
    assert "all_gather, all_to_all" in run.reason
    assert "--operation" in run.reason
    assert operations(of(text, "nccl_allgather.log")) == {Operation.ALL_GATHER}
    assert operations(of(text, operation=Operation.ALL_TO_ALL)) == {Operation.ALL_TO_ALL}
    assert operations(of("$ mpirun -np 8 ./build/alltoall_perf -b 1M -e 32M -f 2 -c 0\n" + text)) == {
        Operation.ALL_TO_ALL
    }


def test_a_name_that_the_numbers_contradict_is_not_believed() -> None:
    run = of(output("all_reduce", sizes=PLATEAU, shape=MIDDLE), "reduce_scatter.txt")
    assert run.measurements == ()
    assert "reduce_scatter" in run.reason
    assert "all_reduce" in run.reason


def test_an_operation_that_no_profile_has_is_named_and_not_taken_for_another() -> None:
    run = of(output("all_reduce", sizes=PLATEAU).replace("all_reduce_perf", "hypercube_perf"))
    assert run.measurements == ()
    assert "hypercube_perf" in run.reason


def test_a_replay_from_a_graph_is_another_cell() -> None:
    assert {one.cell.graph for one in of(output(graph=10)).measurements} == {True}


def test_rccl_tests() -> None:
    text = output(sizes=PLATEAU, shape=MIDDLE).replace(
        "#\n# Using", "#\nrccl-tests: Version develop:a52452e\n# Using", 1
    )
    run = of("# Collective test starting: all_reduce_perf\n" + text.replace(" NVIDIA H200", ""))
    assert run.state is RunState.COMPLETE, run.reason
    assert run.tool_version == "rccl-tests develop:a52452e"
    assert run.ranks[0].gpu_model is None


def test_other_text_has_no_runs() -> None:
    assert read_runs(b"GPU 0: NVIDIA H200\n 12 24 int values\n", "x") == ()
    assert of("").state is RunState.INCOMPLETE


def test_a_whole_is_what_its_worst_part_is() -> None:
    assert set(WORST_FIRST) == set(RunState)
    good = of(output())
    for state in RunState:
        assert merged([good, replace(good, state=state), good]).state is state
    worst = merged([replace(good, state=RunState.HUNG, reason="h"), replace(good, state=RunState.WRONG, reason="w")])
    assert (worst.state, worst.reason) == (RunState.WRONG, "all_reduce: h; all_reduce: w")


SHARED = Path(__file__).parents[2].parent / "shared" / "samples" / "public" / "nccl-tests"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published outputs are not beside this checkout")
@pytest.mark.parametrize("name", sorted(path.name for path in SHARED.glob("*.txt")) if SHARED.is_dir() else [])
def test_every_row_of_published_outputs_is_read_and_its_operation_found_without_a_name(name: str) -> None:
    data = (SHARED / name).read_bytes()
    rows = re.findall(r"(?m)^.*?\s\d+\s+\d+\s+float\s.*\d\.\d.*$", data.decode())
    assert sum(len(table.rows) for table in tables(data)) == len(rows)
    for run in read_runs(data, "out.txt"):
        assert len(operations(run)) == 1
