"""How a run of the built-in benchmark ended, as its parent tells it from what ranks said."""

from __future__ import annotations

from typing import Any

import pytest

from rankmuster.bench.builtin.conclude import Ended, Run, conclude
from rankmuster.bench.builtin.frames import Message
from rankmuster.bench.builtin.heard import Heard
from rankmuster.bench.builtin.rows import spread
from rankmuster.model.benchmark import RunState

RUN = Run("here", 2, 1_000.0, (), ("bench",))
NAME = "all_reduce of 16777216 bytes (float)"


def heard(*said: tuple[int, str, dict[str, Any]]) -> Heard:
    found = Heard()
    found.take(Message(rank, number, kind, dict(values)) for number, (rank, kind, values) in enumerate(said))
    return found


def start(rank: int) -> tuple[int, str, dict[str, Any]]:
    told = {"host": f"node{rank}", "pid": 100 + rank, "ranks": 2, "launcher": "local", "time": 1000.0 + rank}
    return rank, "started", told


def at(rank: int, cell: int, doing: str) -> tuple[int, str, dict[str, Any]]:
    return rank, "at", {"cell": cell, "doing": doing}


PLAN = (0, "plan", {"cells": [NAME], "left_out": []})
ROW = (
    0,
    "row",
    {
        "operation": "all_reduce",
        "size": 16 << 20,
        "moved": 16 << 20,
        "dtype": "float",
        "in_place": False,
        "graph": False,
        "time_us": 100.0,
        "wrong": 0,
        "iterations_us": [100.0, 104.0, 98.0],
        "ranks_us": [100.0, 101.0],
    },
)
DONE = ((0, "done", {}), (1, "done", {}))


def test_a_whole_run_has_bandwidths_as_nccl_tests_defines_them() -> None:
    run = conclude(heard(start(0), start(1), PLAN, ROW, *DONE), Ended(), RUN)
    assert run.state is RunState.COMPLETE
    (row,) = run.measurements
    assert row.algbw == pytest.approx(167.77216)
    assert row.busbw == pytest.approx(167.77216)  # 2 (n-1) / n is 1 for two ranks
    assert row.spread is not None
    assert (row.spread.min_us, row.spread.max_us, row.spread.p50_us) == (98.0, 104.0, 100.0)
    assert [rank.host for rank in run.ranks] == ["node0", "node1"]


def test_who_did_not_come_is_named_and_where_the_others_wait() -> None:
    said = heard(start(0), start(1), PLAN, at(0, 0, "the warm-up"), at(1, 0, "the warm-up"), at(0, 0, "the timed loop"))
    run = conclude(said, Ended(limit_s=30.0), RUN)
    assert run.state is RunState.HUNG
    assert f"rank 1 (node1) did not come: it is in the warm-up of {NAME}" in run.reason
    assert f"rank 0 is waiting in the timed loop of {NAME}" in run.reason


def test_where_all_wait_alike_nobody_is_accused() -> None:
    said = heard(start(0), start(1), PLAN, at(0, 0, "the timed loop"), at(1, 0, "the timed loop"))
    assert "cannot be told" in conclude(said, Ended(limit_s=30.0), RUN).reason
    stopped = conclude(said, Ended(limit_s=30.0, stopped={1: "is stopped"}), RUN)
    assert "rank 1's process is stopped" in stopped.reason
    assert "cannot be told" not in stopped.reason


def test_a_rank_that_never_started_is_named() -> None:
    run = conclude(heard(start(0), at(0, -1, "finding the other ranks")), Ended(limit_s=5.0), RUN)
    assert run.state is RunState.HUNG
    assert "rank 1 is not started yet" in run.reason


def test_the_first_failure_comes_first() -> None:
    said = heard(start(0), start(1), PLAN, (1, "failed", {"error": "NcclFailed: x", "at": "library.py:1"}))
    run = conclude(said, Ended(dead={0: "was killed by signal 6 (abort)", 1: "ended with status 1"}), RUN)
    assert run.state is RunState.ERROR
    assert run.reason.index("NcclFailed") < run.reason.index("signal 6")
    killed = conclude(said, Ended(dead={0: "was killed by signal 9"}, killed=frozenset({0})), RUN)
    assert killed.reason.index("signal 9") < killed.reason.index("NcclFailed")


@pytest.mark.parametrize("said", [(start(0), start(1), PLAN), (start(0), start(1), PLAN, ROW), (start(0),)])
def test_what_ends_before_its_end_is_incomplete(said: Any) -> None:
    assert conclude(heard(*said), Ended(), RUN).state is RunState.INCOMPLETE


def test_a_damaged_row_is_no_complete_run() -> None:
    bad = (0, "row", {**ROW[2], "time_us": "fast"})
    assert conclude(heard(start(0), start(1), PLAN, bad, *DONE), Ended(), RUN).state is RunState.INCOMPLETE


def test_wrong_elements_outrank_contention() -> None:
    wrong = (0, "row", {**ROW[2], "wrong": 3})
    run = conclude(heard(start(0), start(1), PLAN, wrong, *DONE), Ended(), RUN, contention="foreign", contended=True)
    assert run.state is RunState.WRONG
    assert "all_reduce of 16777216 bytes (3)" in run.reason
    assert "foreign" in run.reason


def test_contention_is_a_state_of_its_own() -> None:
    said = heard(start(0), start(1), PLAN, ROW, *DONE)
    run = conclude(said, Ended(), RUN, contention="GPU 1 also has process 77", contended=True)
    assert run.state is RunState.CONTENDED
    assert run.reason == "GPU 1 also has process 77"


def test_a_gpu_slow_by_itself_is_told_from_its_links() -> None:
    probes = [(rank, "probe", {"matmul_us": us, "copy_us": 120.0}) for rank, us in ((0, 200.0), (1, 410.0))]
    device = [(rank, "device", {"device": rank, "model": "H200", "nccl": "2.28.9"}) for rank in (0, 1)]
    run = conclude(heard(start(0), start(1), *device, *probes, PLAN, ROW, *DONE), Ended(), RUN)
    assert run.state is RunState.COMPLETE
    assert "the GPU of rank 1 (device 1) is slow by itself" in run.reason
    assert "2.05 times" in run.reason
    assert run.ranks[1].matmul_us == 410.0


def test_nodes_that_did_not_start_are_named() -> None:
    ended = Ended(launcher="srun ended with status 1 (error: Node failure on n2)", silent_nodes=("n2",))
    run = conclude(heard(start(0)), ended, RUN)
    assert run.state is RunState.ERROR
    assert run.reason.startswith("no rank of n2 started; srun ended with status 1")


def test_the_spread_is_by_nearest_rank() -> None:
    found = spread(tuple(float(value) for value in range(1, 101)))
    assert found is not None
    assert (found.p50_us, found.p99_us, found.min_us, found.max_us) == (50.0, 99.0, 1.0, 100.0)
    assert spread(()) is None


def test_what_nccl_chose_and_connected_comes_from_the_ranks_logs() -> None:
    """Lines as NCCL 2.28.9 wrote them on two H200s; the ranks' own barrier is not of the profile."""
    head = "vm:1370:1370 [0] NCCL INFO "
    lines = [
        head + "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        head + "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer",
        head + "AllReduce: 4 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
        head + "AllReduce: 16777216 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}",
    ]
    said = heard(start(0), start(1), PLAN, ROW, (0, "log", {"lines": lines}), *DONE)
    run = conclude(said, Ended(), RUN)
    assert run.channels == 24
    assert run.transports == ("P2P/CUMEM",)
    assert [(one.operation, one.size_bytes, one.algorithm, one.channels) for one in run.choices] == [
        ("all_reduce", 16 << 20, "RING", 24)
    ]
    warned = (1, "log", {"lines": ["vm:1371:1371 [1] misc/socket.cc:58 NCCL WARN socketProgress: closed by peer"]})
    assert "NCCL warned: socketProgress" in conclude(heard(start(0), start(1), warned), Ended(), RUN).reason
