"""A log as a whole: what it states, whether it is whole, and that nothing breaks its reader."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.nccl_log import READER
from rankmuster.model.nccllog import (
    InitPhase,
    NcclCall,
    NcclInit,
    NcclInterface,
    NcclLogFile,
    NcclProblem,
    NcclProblemKind,
    NcclTuning,
    NcclVersionLine,
)
from rankmuster.model.problem import ProblemKind

START = """\
[2026-11-29 20:22:33] vm:854:854 [0] NCCL INFO ENV/Plugin: Could not find: libnccl-env.so
[2026-11-29 20:22:33] vm:854:854 [0] NCCL INFO Bootstrap: Using eth0:192.0.2.2<0>
[2026-11-29 20:22:33] vm:854:854 [0] NCCL INFO cudaDriverVersion 13000
[2026-11-29 20:22:33] vm:854:854 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
[2026-11-29 20:22:34] vm:854:854 [0] NCCL INFO NET/IB : No device found.
[2026-11-29 20:22:34] vm:854:854 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.2<0>
[2026-11-29 20:22:34] vm:854:854 [0] NCCL INFO Using network Socket
[2026-11-29 20:22:34] vm:854:854 [0] NCCL INFO ncclCommInitRankConfig comm 0x419184e0 rank 0 nranks 4 cudaDev 0 \
nvmlDev 0 busId 60 commId 0x53c49d0d3d9e0276 - Init START
"""
COMPLETE = START.splitlines()[-1].replace("START", "COMPLETE") + "\n"
CALL = (
    "[2026-11-29 20:22:40] vm:854:854 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f8ad9e00000 "
    "recvbuff 0x7f8ad9e00000 count 65536 datatype 9 op 0 root 0 comm 0x419184e0 [nranks=4] stream (nil)\n"
)
TUNING = (
    "[2026-11-29 20:22:40] vm:854:854 [0] NCCL INFO AllReduce: 131072 Bytes -> Algo RING proto LL "
    "channel{Lo..Hi}={0..7}\n"
)
MISMATCH = """\
m1:34439:34439 [0] NCCL INFO Bootstrap : Using eth0:10.88.0.10<0>
NCCL version 2.27.3+cuda12.9
m1:34439:34559 [0] NCCL INFO ncclCommInitRank comm 0x6c2f708dfc38 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 \
commId 0x7bc4612476c0efec - Init START
m2:8367:8367 [0] NCCL INFO Bootstrap : Using eth0:10.88.0.11<0>
m2:8367:8487 [0] NCCL INFO ncclCommInitRank comm 0x2cc31a72f642 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 \
commId 0x7bc4612476c0efec - Init START

m1:34439:34559 [0] init.cc:1010 NCCL WARN Mismatched NCCL version detected : rank 1 version 22705 rank 0 version 22703
m1:34439:34559 [0] NCCL INFO init.cc:1499 -> 5
"""
RAS_PATH_LOST = """\
[2026-11-29 21:05:52] vm:4282:4573 [0] NCCL INFO RAS thread started

[2026-11-29 21:06:05] vm:4282:4573 [0] misc/socket.cc:596 NCCL WARN socketStartConnect: connect to 10.77.0.2<60483> \
failed : Network is unreachable
[2026-11-29 21:06:05] vm:4282:4573 [0] NCCL INFO misc/socket.cc:671 -> 2
"""


def read(content: str | bytes, path: str = "nccl/nccl_vm_854.log") -> Reading:
    data = content if isinstance(content, bytes) else content.encode()
    return READER.read(Blob(path, data))


def log_file(reading: Reading) -> NcclLogFile:
    (found,) = [o for o in reading.observations if isinstance(o, NcclLogFile)]
    return found


def of(reading: Reading, kind: type) -> list:
    return [o for o in reading.observations if isinstance(o, kind)]


def test_a_start_that_never_completed_in_an_unbroken_log_is_there_for_the_init_detector() -> None:
    reading = read(START)
    (init,) = of(reading, NcclInit)
    assert (init.phase, init.comm_id, init.origin.host, init.origin.pid) == (
        InitPhase.START,
        "53c49d0d3d9e0276",
        "vm",
        854,
    )
    assert not log_file(reading).hole
    assert log_file(reading).writers == (("vm", 854),)
    assert of(reading, NcclProblem) == []
    assert [i.role for i in of(reading, NcclInterface)] == ["bootstrap", "socket", "network"]


def test_calls_after_the_init_of_their_communicator_are_an_unbroken_log() -> None:
    reading = read(START + COMPLETE + CALL * 3)
    assert len(of(reading, NcclCall)) == 3
    assert not log_file(reading).hole


@pytest.mark.parametrize(
    "rest",
    [
        CALL,
        TUNING,
        "vm:854:854 [0] NCCL INFO comm 0x419184e0 rank 0 nranks 4 cudaDev 0 busId 60 - Destroy COMPLETE\n",
        "vm:854:900 [0] NCCL INFO RAS trying to reconnect with 192.0.2.2<50775> (x)\n",
        CALL + START.replace("0x419184e0", "0x52") + COMPLETE.replace("0x419184e0", "0x52"),
    ],
    ids=["call", "tuning", "destroy", "ras", "a second communicator's init does not mend it"],
)
def test_the_piece_after_a_rotation_has_a_hole_before_it(rest: str) -> None:
    found = log_file(read(rest))
    assert found.hole
    assert found.holed == (("vm", 854),)


def test_of_a_shared_output_only_the_writer_that_began_before_it_has_a_hole() -> None:
    other = CALL.replace("vm:854:854", "vm:855:855").replace("0x419184e0", "0x77")
    found = log_file(read(START + COMPLETE + CALL + other))
    assert found.hole
    assert found.holed == (("vm", 855),)
    assert found.writers == (("vm", 854), ("vm", 855))


def test_a_shared_output_with_the_start_of_every_rank_has_no_hole() -> None:
    everyone = "".join(
        (START + COMPLETE + CALL).replace("vm:854:854", f"vm:{pid}:{pid}").replace("0x419184e0", f"0x{pid}")
        for pid in range(900, 904)
    )
    found = log_file(read(everyone, "stdout.txt"))
    assert not found.hole
    assert len(found.writers) == 4


@pytest.mark.parametrize(
    "content",
    [
        "NCCL version 2.27.3+cuda12.9\n" + CALL,
        CALL + CALL.replace("opCount 0", "opCount 1"),
        RAS_PATH_LOST,
    ],
    ids=["only COLL is logged, after the version", "calls counted from zero", "warnings alone"],
)
def test_logs_without_init_lines_can_be_whole(content: str) -> None:
    assert not log_file(read(content)).hole


def test_blocks_of_nul_are_lost_lines() -> None:
    reading = read(START.encode() + bytes(4096) + COMPLETE.encode())
    assert log_file(reading).hole
    assert [p.kind for p in reading.problems] == [ProblemKind.DAMAGED]


def test_a_log_that_ends_inside_a_line_says_so() -> None:
    assert log_file(read(START[:-20])).cut
    assert not log_file(read(START)).cut


def test_two_releases_in_one_job_are_told_with_both_versions() -> None:
    reading = read(MISMATCH)
    (problem,) = of(reading, NcclProblem)
    assert problem.kind is NcclProblemKind.VERSION_MISMATCH
    assert problem.detail == (("rank 0", "2.27.3"), ("rank 1", "2.27.5"))
    assert [v.version for v in of(reading, NcclVersionLine)] == ["2.27.3"]


def test_a_failure_of_the_ras_thread_is_marked_so_that_it_is_not_taken_for_the_jobs_own_traffic() -> None:
    (problem,) = of(read(RAS_PATH_LOST), NcclProblem)
    assert problem.kind is NcclProblemKind.CONNECT_FAILED
    assert ("thread", "ras") in problem.detail
    assert problem.peer == "10.77.0.2<60483>"


def test_a_peer_that_ras_gives_up_is_known_by_its_process() -> None:
    reading = read(
        "vm:6223:6223 [0] NCCL INFO RAS network listening socket at 192.0.2.2<40171>\n"
        "vm:6223:6513 [0] NCCL INFO RAS peer 3: socket 192.0.2.2<50775>, pid 6226, GPU 3\n"
        "vm:6223:6513 [0] NCCL INFO RAS declaring peer 192.0.2.2<50775> as DEAD; x\n"
    )
    (dead,) = of(reading, NcclProblem)
    assert dict(dead.detail) == {"dead": "yes", "thread": "ras", "peer_pid": "6226"}
    (own,) = of(reading, NcclInterface)
    assert (own.role, own.interfaces, own.origin.pid) == ("ras", (("192.0.2.2<40171>", "192.0.2.2"),), 6223)


def test_a_choice_of_algorithm_is_told_once_and_again_when_it_changes() -> None:
    changed = TUNING.replace("RING proto LL", "NVLS proto Simple")
    chosen = [t.algorithm for t in of(read(START + COMPLETE + TUNING * 5 + changed * 5), NcclTuning)]
    assert chosen == ["RING", "NVLS"]


def test_calls_logged_by_both_coll_and_call_are_counted_once() -> None:
    traced = "vm:854:854 NCCL CALL ncclAllReduce(7f8ad9e00000,7f8ad9e00000,65536,9,0,0,0x419184e0,(nil))\n"
    assert len(of(read(CALL + traced), NcclCall)) == 1
    (alone,) = of(read(traced), NcclCall)
    assert (alone.op, alone.count, alone.datatype, alone.comm) == ("AllReduce", 65536, 9, "0x419184e0")


def test_a_host_name_with_another_lines_rest_before_it_is_the_same_writer() -> None:
    glued = "     28.27    0.00    0.00      0" + CALL.partition("] ")[2]
    reading = read(START + COMPLETE + glued)
    assert log_file(reading).writers == (("vm", 854),)
    assert len(of(reading, NcclCall)) == 1


def test_the_rank_comes_from_the_label_then_from_the_name_of_a_log_with_one_writer() -> None:
    labelled = read(START.replace("[2026", "[rank2]: [2026"), "rank0.log")
    named = read(START, "rank0.log")
    shared = read(START + START.replace("vm:854:854", "vm:855:855"), "node-rank0.log")
    assert {i.origin.rank for i in of(labelled, NcclInit)} == {2}
    assert {i.origin.rank for i in of(named, NcclInit)} == {0}
    assert {i.origin.rank for i in of(shared, NcclInit)} == {None}


def test_a_call_line_that_is_cut_is_reported_and_the_rest_is_read() -> None:
    reading = read(START + COMPLETE + CALL + CALL[:120])
    assert len(of(reading, NcclCall)) == 1
    assert [p.kind for p in reading.problems] == [ProblemKind.DAMAGED]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (CALL, True),
        ("NCCL version 2.27.3+cuda12.9\n", True),
        ("[rank0]:[E1129 21:08:13.1 ProcessGroupNCCL.cpp:1628] preparing to dump debug info\n", False),
        ("RuntimeError: NCCL error in x.cpp:1, unhandled system error, NCCL version 2.27.3\n", False),
        ("\x80\x02}q\x00(\x00\x01\x02\x03NCCL INFO \x00\x01\x02\x03\x04", False),
        ("", False),
    ],
)
def test_a_log_is_known_by_its_content(content: str, expected: bool) -> None:
    assert READER.recognises(Blob("any.txt", content.encode("latin-1"))) is expected


def test_a_text_without_nccl_lines_yields_nothing() -> None:
    assert read("hello\nworld\n") == Reading()


def test_fifty_thousand_calls_are_read_within_a_second() -> None:
    began = time.process_time()
    reading = read(START + COMPLETE + CALL * 50_000)
    assert len(of(reading, NcclCall)) == 50_000
    assert time.process_time() - began < 2.0  # twice the goal: test machines are shared


@pytest.mark.parametrize(
    "line",
    [
        "a" * 16_000 + " NCCL INFO x\n",
        "NCCL INFO " * 1600 + "\n",
        "a:1:1 " * 2600 + "NCCL WARN x\n",
        "[" * 16_000 + "NCCL INFO \n",
    ],
)
def test_hostile_lines_take_linear_time(line: str) -> None:
    began = time.process_time()
    read(line * 100)
    assert time.process_time() - began < 2.0


PIECES = (START, COMPLETE, CALL, TUNING, MISMATCH, RAS_PATH_LOST)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PIECES), st.integers(0, 1000), st.sampled_from(PIECES), st.integers(0, 1000))
def test_splices_of_two_logs_are_read(first: str, end: int, second: str, begin: int) -> None:
    assert isinstance(read(first[:end] + second[begin:]), Reading)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PIECES), st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=20))
def test_flipped_bytes_are_survived(content: str, flips: list[tuple[int, int]]) -> None:
    data = bytearray(content.encode())
    for at, value in flips:
        data[at % len(data)] = value
    assert isinstance(read(bytes(data)), Reading)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_are_survived(data: bytes) -> None:
    blob = Blob("x", data)
    READER.recognises(blob)
    assert isinstance(READER.read(blob), Reading)


@pytest.mark.parametrize("digits", ["9" * 20, "9" * 5000])
def test_gigantic_numbers_are_survived(digits: str) -> None:
    for old in ("65536", "opCount 0", "854", "rank 0", "22705", "13000"):
        assert isinstance(read((START + COMPLETE + CALL + MISMATCH).replace(old, f"{old}{digits}")), Reading)


def test_the_end_of_a_log_has_a_hole_before_it() -> None:
    who = b"gd1:8100:8220 [0] NCCL INFO "
    line = who + b"ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0xab - Init START\n"
    whole = who + b"Bootstrap : Using eth0:10.0.0.1<0>\n" + line

    def hole(data: bytes) -> bool:
        return next(f for f in READER.read(Blob("nccl.log", data)).observations if isinstance(f, NcclLogFile)).hole

    assert not hole(whole)
    assert hole(whole[30:])
