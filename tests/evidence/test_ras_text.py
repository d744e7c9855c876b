"""What a RAS text report must tell, whatever NCCL wrote it and however it was saved."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.ras_text import READER
from rankmuster.model.problem import ProblemKind
from rankmuster.model.ras import ANY_OPERATION, RasMajority, RasPoll
from rankmuster.model.stamp import Stamp, StampKind

HEAD = """\
NCCL version 2.28.9 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          4            1          4        4

"""

TABLE = """\
Communicators... (0.001s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""

LAGGARD = f"""\
{HEAD}{TABLE}    0         1         1         4         4         4   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (e2ea29289b106d20) MISMATCH
  Communicator ranks have different AllGather operation counts
  3 ranks have launched up to operation 151
  Rank 2 has launched up to operation 150 -- GPU 2 managed by process 5892 on node 192.0.2.2

  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 604
  Rank 2 has launched up to operation 600 -- GPU 2 managed by process 5892 on node 192.0.2.2

"""

LOST = f"""\
{HEAD}{TABLE}    0         1         1         3         4         3   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 6559 on node 192.0.2.2 managing GPU 2

#0-0 (673cc2d124dd9e06) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 2 -- GPU 2 managed by process 6559 on node 192.0.2.2

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

"""

HEALTHY = f"""\
{HEAD}{TABLE}    0         1         1         4         4         4   RUNNING      OK

Errors
======

Warnings
========

"""

GARBAGE = f"""\
{HEAD}{TABLE}    0         1         1         3         4         3   RUNNING  INCOMPLETE
    1         2         0         0         0         0    NOCOMM  INCOMPLETE,MISMATCH

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 6226 on node 192.0.2.2 managing GPU 3

#0-0 (55af3ae9081d7fb3) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 3 -- GPU 3 managed by process 6226 on node 192.0.2.2

#1-0 (b3d5000200000001) INCOMPLETE
  Missing communicator data from 771 ranks
  Rank -1348998492 -- GPU 0 managed by process 0 on node 0.0.0.0

Warnings
========

"""


def polls(report: str, path: str = "ras/1795986479.454-b.txt") -> list[RasPoll]:
    blob = Blob(path, report.encode())
    assert READER.recognises(blob)
    return [poll for poll in READER.read(blob).observations if isinstance(poll, RasPoll)]


def poll(report: str) -> RasPoll:
    (only,) = polls(report)
    return only


def problems(report: str) -> list[ProblemKind]:
    return [problem.kind for problem in READER.read(Blob("r.txt", report.encode())).problems]


def test_a_rank_that_fell_behind_is_named_and_the_others_are_counted() -> None:
    found = poll(LAGGARD)
    (communicator,) = found.communicators
    assert (communicator.hash, communicator.size) == (0xE2EA29289B106D20, 4)
    assert (communicator.status, communicator.errors) == ("RUNNING", ("MISMATCH",))
    (laggard,) = communicator.ranks
    assert (laggard.rank, laggard.host, laggard.pid, laggard.cuda_dev) == (2, "192.0.2.2", 5892, 2)
    assert laggard.counts == {"AllGather": 150, "AllReduce": 600}
    assert communicator.majorities == {"AllGather": (RasMajority(151, 3),), "AllReduce": (RasMajority(604, 3),)}
    assert not found.corrupt
    assert not found.truncated
    assert problems(LAGGARD) == []


def test_a_reply_says_when_and_whom_it_was_asked() -> None:
    found = poll(LAGGARD)
    assert found.time == Stamp(1795986479.454, StampKind.UNIX)
    assert found.node == "b"
    assert (found.nccl_version, found.nodes, found.processes_total, found.gpus_total) == ("2.28.9", 1, 4, 4)
    assert found.collection_seconds == 0.001


def test_a_process_that_did_not_answer_is_missing_and_not_dead() -> None:
    found = poll(LOST)
    assert [(p.host, p.pid, p.gpus) for p in found.missing_processes] == [("192.0.2.2", 6559, (2,))]
    assert (found.missing_process_count, found.dead_process_count, found.timeouts) == (1, 0, 2)
    (communicator,) = found.communicators
    (missing,) = communicator.missing
    assert (missing.rank, missing.pid, missing.unresponsive, missing.considered_dead) == (2, 6559, True, False)
    assert communicator.missing_count == 1
    assert communicator.ranks == ()


def test_a_dead_process_is_dead_for_its_ranks_too() -> None:
    report = LOST.replace(
        "INCOMPLETE\n  Missing communicator data from 1 job process\n",
        "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n",
    )
    found = poll(report)
    assert found.missing_process_count == 0
    assert [p.pid for p in found.dead_processes] == [6559]
    assert found.communicators[0].missing[0].considered_dead is True


def test_a_healthy_report_lists_its_groups_and_complains_of_nothing() -> None:
    found = poll(HEALTHY)
    (group,) = found.groups
    assert (group.communicators, group.ranks_per_communicator, group.ranks_in_group) == (1, 4, 4)
    assert (group.status, group.errors) == ("RUNNING", ())
    assert found.communicators == ()
    assert problems(HEALTHY) == []


def test_a_job_in_init_has_no_communicators() -> None:
    report = HEAD + "Communicators... (0.000s)\n=============\n\nNo communicator data collected!\n\nErrors\n======\n\n"
    found = poll(report + "Warnings\n========\n\n")
    assert found.no_communicators
    assert not found.truncated


def test_the_form_of_nccl_2_24_counts_all_operations_together() -> None:
    report = f"""\
{TABLE.replace("0.001s", "0.00s")}    0         1         4         8        32        32   RUNNING  INCOMPLETE,MISMATCH

Errors
======

#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 2 ranks
  The missing ranks: 8,21

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  28 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 (NVML 4) managed by process 483072 on node 10.77.0.11
  Rank 2 -- [process information not found]

"""
    (communicator,) = poll(report).communicators
    assert [rank.rank for rank in communicator.missing] == [8, 21]
    assert communicator.missing[0].pid is None
    assert {rank.rank: rank.counts for rank in communicator.ranks} == {
        0: {ANY_OPERATION: 6649},
        2: {ANY_OPERATION: 6649},
    }
    assert (communicator.ranks[0].cuda_dev, communicator.ranks[0].nvml_dev) == (0, 4)
    assert communicator.ranks[1].pid is None
    assert communicator.majorities == {ANY_OPERATION: (RasMajority(6650, 28),)}
    assert problems(report) == []


def test_ranks_without_the_communicator_are_told_from_ranks_that_do_not_answer() -> None:
    report = f"""\
{HEAD}{TABLE}    0         1         1         3         4         3  FINALIZE  MISMATCH

Errors
======

Warnings
========

#0-0 (9e17999afaa87dbb) MISMATCH
  Communicator ranks have different status
  2 ranks have status RUNNING
  Rank 1 has status FINALIZE -- GPU 1 managed by process 11 on node 10.0.0.1
  Rank 3 has status NOCOMM -- GPU 3 managed by process 13 on node 10.0.0.1
"""
    found = poll(report)
    (communicator,) = found.communicators
    assert {rank.rank: rank.status for rank in communicator.ranks} == {1: "FINALIZE", 3: "NOCOMM"}
    assert communicator.status_majorities == {"RUNNING": 2}
    assert [(rank.rank, rank.unresponsive) for rank in communicator.missing] == [(3, False)]
    assert communicator.missing_count == 1
    assert not found.truncated


def test_errors_of_ranks_have_the_names_of_ncclresult() -> None:
    report = f"""\
{HEAD}{TABLE}    0         1         1         4         4         4   RUNNING  ERROR

Errors
======

#0-0 (9e17999afaa87dbb) ERROR
  Initialization error on 1 rank
  Rank 0 reported System error -- GPU 0 managed by process 10 on node 10.0.0.1
  Asynchronous errors on 3 ranks
  2 ranks reported Remote process error
  Rank 3 reported Unhandled CUDA error -- GPU 3 managed by process 13 on node 10.0.0.1

Warnings
========

"""
    (communicator,) = poll(report).communicators
    by_rank = {rank.rank: rank for rank in communicator.ranks}
    assert (by_rank[0].init_error, by_rank[0].async_error) == ("ncclSystemError", None)
    assert (by_rank[3].init_error, by_rank[3].async_error) == (None, "ncclUnhandledCudaError")
    assert communicator.error_majorities == {"ncclRemoteError": 2}


def test_ranks_that_launched_nothing_have_a_count_of_zero() -> None:
    report = LAGGARD.replace("has launched up to operation 150", "has not launched any operations").replace(
        "3 ranks have launched up to operation 604", "3 ranks have not launched any operations"
    )
    (communicator,) = poll(report).communicators
    assert communicator.ranks[0].counts["AllGather"] == 0
    assert communicator.majorities["AllReduce"] == (RasMajority(0, 3),)


def test_one_impossible_communicator_makes_the_whole_reply_incredible() -> None:
    found = poll(GARBAGE)
    assert len(found.communicators) == 2
    assert any("-1348998492" in reason for reason in found.corrupt)
    assert any("771" in reason for reason in found.corrupt)
    assert ProblemKind.CORRUPT in problems(GARBAGE)
    assert not found.truncated


def test_an_empty_group_is_noted_and_not_taken_for_corruption() -> None:
    report = HEALTHY.replace(
        "\n\nErrors\n", "\n    1         1         0         0         0         0      INIT      OK\n\nErrors\n"
    )
    assert poll(report).corrupt == ()
    assert problems(report) == [ProblemKind.DAMAGED]


@pytest.mark.parametrize(
    "before", ["SERVER PROTOCOL 2\nOK\n", "ERROR: Unknown command SET FORMAT json\n", "$ ncclras -v\n", "\r\n"]
)
def test_the_handshake_or_a_prompt_may_stand_before_the_report(before: str) -> None:
    assert poll(before + LAGGARD).communicators == poll(LAGGARD).communicators
    assert problems(before + LAGGARD) == []


def test_windows_line_ends_change_nothing() -> None:
    assert poll(LAGGARD.replace("\n", "\r\n")) == poll(LAGGARD)


def test_several_reports_of_one_file_are_several_polls_with_their_own_times() -> None:
    report = f"1795986470\n{LAGGARD}1795986480.5\n{LOST}2026-11-29 21:08:20\n{HEALTHY}"
    first, second, third = polls(report, "watch.log")
    assert (first.time, second.time) == (Stamp(1795986470, StampKind.UNIX), Stamp(1795986480.5, StampKind.UNIX))
    assert second.missing_process_count == 1
    assert third.time is None
    assert third.stamp is not None
    assert third.stamp.kind is StampKind.LOCAL
    assert problems(report) == []


def test_the_time_in_the_name_of_a_file_is_that_of_its_first_report_only() -> None:
    first, second = polls(LAGGARD + LAGGARD)
    assert first.time is not None
    assert second.time is None


@pytest.mark.parametrize(
    "end",
    [
        "Errors\n",
        "Warnings\n=",
        "MISMATCH\n",
        "  3 ranks have launched up to operation 604\n",
        "  3 ranks have launched up to operation 60",
    ],
)
def test_a_report_that_was_cut_off_says_so(end: str) -> None:
    cut = LAGGARD[: LAGGARD.rindex(end) + len(end)]
    if end == "Warnings\n=":
        cut = cut[:-1]
    found = poll(cut)
    assert found.truncated
    assert ProblemKind.DAMAGED in problems(cut)


def test_a_number_that_was_cut_in_the_middle_is_not_used() -> None:
    cut = LAGGARD[: LAGGARD.index("operation 151") + len("operation 15")]
    assert poll(cut).communicators[0].majorities == {}


def test_a_report_saved_without_its_last_newline_is_whole() -> None:
    assert not poll(LAGGARD.rstrip()).truncated
    assert poll(LAGGARD.rstrip()).communicators == poll(LAGGARD).communicators


@pytest.mark.parametrize(
    ("summary", "totals"),
    [
        (
            "  Nodes  Processes         GPUs\n          per node  per process\n      3          8            1\n"
            "      1          2            1\n\n  Nodes  Processes         GPUs\n(total)    (total)      (total)\n"
            "      4         26           26\n\nThe outlier node:\n  Node 10.0.0.4 running processes 60004,60035\n",
            (4, 26, 26),
        ),
        (
            "  Nodes  Processes         GPUs\n          per node  per process\n"
            "      1          4            2\n      1          3            2\n",
            (2, 7, 14),
        ),
        (
            "  Nodes  Processes\n          per node\n      2          3\n\n         Processes         GPUs\n"
            "                    per process\n                 4            1\n                 2            2\n",
            (2, 6, 8),
        ),
    ],
)
def test_the_job_summary_is_added_up_in_each_of_its_shapes(summary: str, totals: tuple[int, int, int]) -> None:
    start = HEALTHY.index("  Nodes")
    report = HEALTHY[:start] + summary + "\n" + HEALTHY[HEALTHY.index("Communicators...") :]
    found = poll(report)
    assert (found.nodes, found.processes_total, found.gpus_total) == totals
    assert problems(report) == []


@pytest.mark.parametrize(
    "other",
    [
        "NCCL version 2.28.9 compiled with CUDA 13.0\nnode1:12:12 [0] NCCL INFO Using network IB\n",
        "Warnings\n========\n\nDo not open the case.\n",
        "node1:12:40 [0] NCCL INFO RAS client listening socket at ::1<28028>\n",
        "[rank0]: starting\n" * 20 + HEALTHY,
        "",
    ],
)
def test_logs_and_prose_are_not_claimed(other: str) -> None:
    assert not READER.recognises(Blob("x.txt", other.encode()))


def test_lines_of_other_programs_behind_a_report_are_reported_as_unread() -> None:
    report = LAGGARD + "[rank1]: Watchdog caught collective operation timeout\n"
    assert poll(report).communicators == poll(LAGGARD).communicators
    assert problems(report) == [ProblemKind.DAMAGED]


REPORTS = [LAGGARD, LOST, HEALTHY, GARBAGE]


def read(data: bytes) -> Reading:
    blob = Blob("ras/1795986479.454-0.txt", data)
    READER.recognises(blob)
    return READER.read(blob)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(REPORTS), st.integers(0, 2000))
def test_cut_anywhere_it_still_reads_and_never_turns_a_sound_report_incredible(report: str, at: int) -> None:
    reading = read(report.encode()[:at])
    if report is not GARBAGE:
        assert all(not found.corrupt for found in reading.observations if isinstance(found, RasPoll))


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(REPORTS), st.sampled_from(REPORTS), st.integers(0, 1500), st.integers(0, 1500))
def test_two_reports_spliced_anywhere_are_read(one: str, other: str, end: int, start: int) -> None:
    assert isinstance(read((one[:end] + other[start:]).encode()), Reading)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(REPORTS), st.lists(st.tuples(st.integers(0, 900), st.integers(0, 255)), max_size=8))
def test_flipped_bytes_are_survived(report: str, flips: list[tuple[int, int]]) -> None:
    data = bytearray(report.encode())
    for at, value in flips:
        data[at % len(data)] = value
    assert isinstance(read(bytes(data)), Reading)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=2000))
def test_random_bytes_behind_a_title_are_survived(data: bytes) -> None:
    assert isinstance(read(b"Communicators...\n" + data), Reading)
    assert isinstance(read(data), Reading)
