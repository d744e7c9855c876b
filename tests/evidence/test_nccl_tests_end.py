"""How a run of nccl-tests ended: wrong values, failures in their own words, gaps, and what is no gap."""

from __future__ import annotations

import pytest

from nccl_tests_read import of
from nccl_tests_sample import MIDDLE, output, row
from rankmuster.model.benchmark import RunState

PLATEAU = tuple(1 << shift for shift in range(20, 26))


def test_wrong_values_are_wrong_however_they_are_said() -> None:
    run = of(output().replace("values : 0 OK", "values : 3 FAILED"))
    assert (run.state, "3" in run.reason) == (RunState.WRONG, True)
    run = of(output(wrong="17"))
    assert run.state is RunState.WRONG
    assert {one.wrong for one in run.measurements} == {17}
    cut = output(wrong="17", footer=False)
    assert of(cut).state is RunState.WRONG


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("node01: Test NCCL failure all_reduce.cu:66 'unhandled cuda error / '", RunState.ERROR),
        (" .. node01 pid 7024: Test failure common.cu:1454", RunState.ERROR),
        ("node01: Test timeout (30s) common.cu:412", RunState.HUNG),
        (
            "slurmstepd: error: *** STEP 71.0 ON node01 CANCELLED AT 2026-11-29T19:25:26 DUE TO TIME LIMIT ***",
            RunState.HUNG,
        ),
        (
            "mpirun noticed that process rank 3 with PID 71 on node node01 exited on signal 11 (Segmentation fault).",
            RunState.ERROR,
        ),
        ("srun: error: node01: task 3: Segmentation fault (core dumped)", RunState.ERROR),
        ("Killed", RunState.ERROR),
    ],
)
def test_a_run_that_broke_off_says_why_in_the_words_it_was_told(line: str, state: RunState) -> None:
    run = of(output(sizes=PLATEAU, footer=False) + line + "\n")
    assert run.state is state
    assert line.strip()[:60] in run.reason
    assert len(run.measurements) == 2 * len(PLATEAU)


def test_a_library_that_is_missing_or_an_unknown_option_is_an_error() -> None:
    run = of(
        "./all_reduce_perf: error while loading shared libraries: libcudart.so.12: cannot open shared object file\n"
    )
    assert run.state is RunState.ERROR
    assert "libcudart.so.12" in run.reason
    run = of("USAGE: all_reduce_perf \n\t[-t,--nthreads <num threads>] \n\t[-b,--minbytes <min size in bytes>] \n")
    assert run.state is RunState.ERROR
    assert "usage" in run.reason


def test_what_follows_complete_results_spoils_nothing_but_is_said() -> None:
    run = of(output() + "Segmentation fault (core dumped)\n")
    assert run.state is RunState.COMPLETE
    assert "Segmentation fault" in run.reason


@pytest.mark.parametrize("line", ["# Out of bounds values", "# Avg bus bandwidth"])
def test_without_its_closing_lines_a_table_is_not_complete(line: str) -> None:
    kept = [one for one in output(shape=MIDDLE).splitlines() if not one.startswith(line)]
    run = of("\n".join(kept) + "\n", "all_reduce.txt")
    assert run.state is RunState.INCOMPLETE
    assert line[2:] in run.reason


def test_a_table_that_ended_before_its_last_size_is_not_complete_even_with_closing_lines() -> None:
    text = output(sizes=PLATEAU, settings="# nThread 1 nGpus 8 minBytes 1048576 maxBytes 268435456 step: 2(factor)")
    run = of(text)
    assert run.state is RunState.INCOMPLETE
    assert "33554432" in run.reason
    assert "268435456" in run.reason


def test_a_table_with_a_size_missing_in_its_middle_is_not_complete() -> None:
    kept = [line for line in output(sizes=PLATEAU).splitlines() if not line.startswith("     4194304")]
    run = of("\n".join(kept) + "\n")
    assert run.state is RunState.INCOMPLETE
    assert "5 rows" in run.reason


def test_less_memory_than_the_largest_size_is_no_gap_but_is_said() -> None:
    text = output(sizes=PLATEAU, settings="# nThread 1 nGpus 8 minBytes 1048576 maxBytes 268435456 step: 2(factor)")
    run = of(text.replace("#\n# Using", "# Reducing maxBytes to 33554432 due to memory limitation\n#\n# Using"))
    assert run.state is RunState.COMPLETE, run.reason
    assert "33554432" in run.reason


def test_a_row_whose_digits_were_changed_is_refused() -> None:
    text = output(sizes=PLATEAU)
    changed = text.replace(row("all_reduce", PLATEAU[3], 10 + PLATEAU[3] / 300_000).split()[5], "3.79", 1)
    assert changed != text
    run = of(changed)
    assert run.state is RunState.ERROR
    assert "algbw" in run.reason


def test_times_of_the_hosts_launching_are_no_bandwidth() -> None:
    run = of(output().replace("    time", " cputime"))
    assert run.state is RunState.ERROR
    assert run.measurements == ()
