"""What an output says of itself is held against its own numbers: the operation, the ranks, its rows, their average."""

from __future__ import annotations

import re

import pytest

from nccl_tests_read import of
from nccl_tests_sample import MIDDLE, NEW, Shape, output
from rankmuster.model.benchmark import BenchmarkRun, RunState

PLATEAU = tuple(1 << shift for shift in range(20, 26))
PROGRAMS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv")


def without_ranks(text: str, *numbers: int) -> str:
    """The list of ranks with lines missing."""
    kept = [line for line in text.splitlines() if not any(line.startswith(f"#  Rank {one:2d} ") for one in numbers)]
    return "\n".join(kept) + "\n"


@pytest.mark.parametrize("claimed", PROGRAMS)
@pytest.mark.parametrize("measured", PROGRAMS)
def test_a_header_that_the_numbers_contradict_gives_no_result(measured: str, claimed: str) -> None:
    text = output(measured, sizes=PLATEAU, inside="N/A" if measured in ("alltoall", "sendrecv") else None)
    run = of(text.replace(f"{measured}_perf", f"{claimed}_perf"))
    alike = ({"all_gather", "alltoall"}, {"reduce_scatter"}, {"broadcast"}, {"reduce"}, {"sendrecv"}, {"all_reduce"})
    if measured == claimed or {measured, claimed} in alike:
        assert run.state is RunState.COMPLETE, run.reason
        return
    assert run.state is RunState.ERROR
    assert run.measurements == ()
    assert " fit " in run.reason


def test_a_list_of_ranks_with_a_hole_is_said_and_the_numbers_say_how_many_there_are() -> None:
    run = of(without_ranks(output(ranks=4, hosts=4, sizes=PLATEAU), 1))
    assert run.state is RunState.COMPLETE, run.reason
    assert (run.members, len(run.ranks)) == (4, 3)
    assert "names 3 of 4 (not 1)" in run.reason


@pytest.mark.parametrize("shape", [MIDDLE, NEW], ids=["middle", "new"])
@pytest.mark.parametrize("ranks", [16, 72, 144])
def test_of_a_list_that_has_only_its_last_rank_the_number_is_right(ranks: int, shape: Shape) -> None:
    text = output(ranks=ranks, hosts=ranks // 4, sizes=tuple(size << 8 for size in PLATEAU), shape=shape)
    run = of(without_ranks(text, *range(ranks - 1)))
    assert run.state is RunState.COMPLETE, run.reason
    assert [one.rank for one in run.ranks] == [ranks - 1]
    assert run.members == ranks


def test_a_list_that_lost_its_end_has_as_many_ranks_as_its_process_has_gpus() -> None:
    run = of(without_ranks(output("broadcast", sizes=PLATEAU), 6, 7))
    assert (run.state, run.members) == (RunState.COMPLETE, 8)


def test_where_nothing_says_how_many_ranks_there_were_the_run_is_not_complete() -> None:
    run = of(without_ranks(output("sendrecv", ranks=8, hosts=8, sizes=PLATEAU, inside="N/A"), 1, 2))
    assert run.state is RunState.INCOMPLETE
    assert "names 6 (not 1, 2), and nothing else says how many" in run.reason


def test_a_whole_list_that_the_numbers_contradict_is_an_error() -> None:
    run = of(without_ranks(output(ranks=4, hosts=4, sizes=PLATEAU), 3))
    assert run.state is RunState.ERROR
    assert run.measurements == ()
    assert "over 3 ranks" in run.reason
    assert "all_reduce over 4" in run.reason


@pytest.mark.parametrize("number", ["-1", "99999999999999999999", "1\N{ARABIC-INDIC DIGIT ONE}", "9999999"])
def test_ranks_that_cannot_be_are_never_counted(number: str) -> None:
    run = of(output(ranks=4, sizes=PLATEAU).replace("#  Rank  1 ", f"#  Rank {number} "))
    # a number that might be one is not passed over
    assert run.state is (RunState.INCOMPLETE if number == "9999999" else RunState.COMPLETE)
    assert run.members == 4
    assert "list of ranks" in run.reason


def test_a_rank_that_is_named_twice_on_different_devices_makes_the_run_incomplete() -> None:
    run = of(output(ranks=4, sizes=PLATEAU).replace("#  Rank  1 ", "#  Rank  0 "))
    assert run.state is RunState.INCOMPLETE
    assert "rank 0 twice" in run.reason


def row_of(text: str, size: int) -> str:
    found = re.search(rf"(?m)^\s+{size}\s.*$", text)
    assert found is not None
    return found[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"^(\s+)(\d+)", r"\1-\2"),  # a size below zero
        (r"^(\s+\d+\s+)(\d+)", r"\1-\2"),  # a count below zero
        (r"^(\s+\d+\s+)(\d+)", r"\g<1>7"),  # a count that does not make the size
        (r"^(\s+)4", "\\1\N{ARABIC-INDIC DIGIT FOUR}"),
        (r"(-1\s+\d)\d", "\\1\N{ARABIC-INDIC DIGIT FOUR}"),  # in the time
        (r"^(\s+)(\d+)", r"\g<1>\g<2>9999999999999999999999"),
    ],
)
def test_a_row_that_cannot_be_is_never_read_as_another(old: str, new: str) -> None:
    text = output(sizes=PLATEAU)
    whole = {(one.cell, one.time_us) for one in of(text).measurements}
    row = row_of(text, 4194304)
    changed = re.sub(old, new, row)
    assert changed != row
    run = of(text.replace(row, changed))
    assert run.state in (RunState.INCOMPLETE, RunState.ERROR)
    assert "line" in run.reason
    assert {(one.cell, one.time_us) for one in run.measurements} < whole


def test_a_row_with_another_factor_than_the_others_is_refused() -> None:
    text = output(sizes=PLATEAU)
    words = row_of(text, 4194304).split()
    run = of(text.replace(words[7], f"{float(words[7]) * 0.98:.2f}"))
    assert run.state is RunState.ERROR
    assert "busbw / algbw" in run.reason


@pytest.mark.parametrize("said", ["nan", "12.2768", "122,768", "", "1", "328.9", "-328.67"])
def test_an_average_that_is_not_the_rows_makes_the_run_incomplete(said: str) -> None:
    run = of(re.sub(r"(Avg bus bandwidth    : )\S+", rf"\g<1>{said}", output(sizes=PLATEAU)))
    assert run.state is RunState.INCOMPLETE
    assert "'Avg bus bandwidth'" in run.reason


@pytest.mark.parametrize("left", ["Avg", "Avg bus ba", "Avg bus bandwidth", "Avg bus bandwidth    :"])
def test_a_line_of_the_average_that_is_cut_makes_the_run_incomplete(left: str) -> None:
    run = of(re.sub(r"Avg bus bandwidth .*", left, output(sizes=PLATEAU)))
    assert run.state is RunState.INCOMPLETE


def deleted(*, settings: str | None = None) -> BenchmarkRun:
    text = output(sizes=PLATEAU, settings=settings)
    for size in PLATEAU[-2:]:
        text = text.replace(row_of(text, size) + "\n", "")
    return of(text)


def test_rows_that_were_deleted_with_the_line_of_settings_are_missed() -> None:
    run = deleted(settings="#")
    assert run.state is RunState.INCOMPLETE
    assert "line of settings is missing" in run.reason
    run = deleted(settings=f"# nThread 1 nGpus 8 minBytes {PLATEAU[0]} maxBytes {PLATEAU[-3]} step: 2(factor)")
    assert run.state is RunState.INCOMPLETE
    assert "rows are missing or were changed" in run.reason


def test_without_the_line_of_settings_nobody_knows_that_all_sizes_are_there() -> None:
    assert of(output(sizes=PLATEAU, settings="#")).state is RunState.INCOMPLETE


def test_what_it_was_started_with_is_kept() -> None:
    line = (
        f"# nThread 1 nGpus 8 minBytes {PLATEAU[0]} maxBytes {PLATEAU[-1]} step: 2(factor) "
        "warmup iters: 5 iters: 1 agg iters: 4 validation: 1 graph: 0 unalign: 3"
    )
    run = of(output(sizes=PLATEAU, settings=line))
    assert dict(run.settings) == {
        "threads": "1",
        "gpus": "8",
        "warmup_iters": "5",
        "iters": "1",
        "agg_iters": "4",
        "validation": "1",
        "graph": "0",
        "unalign": "3",
        "redop": "sum",
    }
