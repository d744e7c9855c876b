"""What NCCL chose beside the class, the transports it took, and its log of a start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admitted import node_path, run_of, with_nic
from rankmuster.admission.nccl_choices import choice_checks, differences, transport_checks
from rankmuster.admission.nccl_log_checks import log_checks
from rankmuster.evidence import nccl_log
from rankmuster.evidence.blob import Blob
from rankmuster.model.admission import CheckState
from rankmuster.model.benchmark import AlgorithmChoice, BenchmarkRun, Operation


def choice(size: int, algorithm: str = "RING", protocol: str = "SIMPLE", channels: int | None = 24) -> AlgorithmChoice:
    return AlgorithmChoice("all_reduce", size, algorithm, protocol, channels)


def test_choices_beside_the_class() -> None:
    usual = [[choice(1 << 20), choice(1 << 24)]] * 5
    run = replace(run_of("ar_1.txt"), choices=(choice(1 << 20, protocol="LL"), choice(1 << 24)))
    (found,) = choice_checks(run, usual)
    assert found.state is CheckState.WARN
    assert found.statement == "all_reduce at 1 MiB: protocol LL, SIMPLE in the class"
    assert choice_checks(replace(run, choices=tuple(usual[0])), usual)[0].state is CheckState.PASS
    assert choice_checks(replace(run, choices=()), usual)[0].state is CheckState.UNKNOWN
    assert choice_checks(run, usual[:2])[0].state is CheckState.UNKNOWN, "two runs may both be the odd ones"


def gathering(*sizes: int, ranks: int = 2) -> BenchmarkRun:
    """A run of all_gather that measured these sizes, of all ranks together."""
    run = run_of("ar_1.txt")
    rows = [
        replace(row, cell=replace(row.cell, operation=Operation.ALL_GATHER, size_bytes=size))
        for row, size in zip(run.measurements, sizes, strict=False)
    ]
    return replace(run, measurements=tuple(rows), ranks=run.ranks[:ranks])


@pytest.mark.parametrize(
    ("measured", "logged", "words"),
    [
        ((16, 64, 256), (8, 32, 128), "all_gather at 16 MiB to 256 MiB"),  # the bytes of one rank of two
        ((8, 16, 32), (4, 8, 16), "all_gather at 8 MiB to 32 MiB"),
        ((16, 64, 256), (16, 64, 256), "all_gather at 16 MiB to 256 MiB"),
        ((16, 64, 256), (5, 6), "all_gather at 5 MiB to 6 MiB"),  # nobody can tell: as NCCL says it
    ],
)
def test_sizes_are_those_that_were_measured(measured: tuple[int, ...], logged: tuple[int, ...], words: str) -> None:
    chosen = tuple(AlgorithmChoice("all_gather", size << 20, "RING", "LL", 24) for size in logged)
    usual = [[replace(one, protocol="SIMPLE") for one in chosen]] * 3
    run = replace(gathering(*(size << 20 for size in measured)), choices=chosen)
    (found,) = choice_checks(run, usual)
    assert found.statement == f"{words}: protocol LL, SIMPLE in the class"


def test_a_class_that_is_of_two_minds_has_no_usual_choice() -> None:
    torn = [[choice(1 << 20)]] * 3 + [[choice(1 << 20, algorithm="TREE")]] * 3
    assert differences([choice(1 << 20, algorithm="NVLS")], torn) == []


@pytest.mark.parametrize(
    ("transports", "rdma", "state"),
    [
        (("P2P/CUMEM",), False, CheckState.PASS),
        (("P2P/CUMEM", "SHM/direct/direct"), False, CheckState.FAIL),
        (("NET/Socket/0",), False, CheckState.FAIL),  # between ranks of one node
        (("NET/IB/0/GDRDMA",), True, CheckState.FAIL),
        ((), False, CheckState.UNKNOWN),
    ],
)
def test_transports_of_one_node(transports: tuple[str, ...], rdma: bool, state: CheckState) -> None:
    path = with_nic(node_path()) if rdma else node_path()
    run = replace(run_of("ar_1.txt"), transports=transports)
    assert transport_checks(run, path)[0].state is state


@pytest.mark.parametrize(
    ("transports", "state"),
    [
        (("P2P/CUMEM", "NET/IB/0/GDRDMA"), CheckState.PASS),
        (("P2P/CUMEM", "NET/IB/0"), CheckState.WARN),
        (("P2P/CUMEM", "NET/Socket/0"), CheckState.FAIL),
    ],
)
def test_transports_between_nodes(transports: tuple[str, ...], state: CheckState) -> None:
    run = run_of("ar_1.txt")
    ranks = tuple(replace(rank, host=f"node{rank.rank // 2}") for rank in run.ranks)
    found = transport_checks(replace(run, transports=transports, ranks=ranks), with_nic(node_path()))
    assert found[0].state is state


HEAD = "node7:100:200 [0] NCCL INFO "
NCCL_LOG = (
    f"{HEAD}ncclCommInitRankConfig comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init START\n"
    f"{HEAD}Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
)
RETRY = (
    f"{HEAD}socketPollConnect: connect to 10.0.0.9<4791> returned Connection timed out, retrying (2/34) after sleep "
    "for 100 msec\n"
)
COMPLETION = (
    "node7:100:202 [0] transport/net_ib.cc:1298 NCCL WARN NET/IB: Got completion from peer 10.0.0.9<4791> with "
    "status=12 opcode=0 len=0 vendor err 129 (Send)\n"
)


def log(text: str) -> tuple[object, ...]:
    return nccl_log.READER.read(Blob("nccl.log", text.encode())).observations


def test_links_must_come_up_at_the_first_attempt() -> None:
    assert log_checks(()) == []
    assert [check.state for check in log_checks(log(NCCL_LOG))] == [CheckState.PASS]
    (retried,) = log_checks(log(NCCL_LOG + RETRY))
    assert retried.state is CheckState.FAIL
    assert "only after retries" in retried.statement
    assert "10.0.0.9" in retried.subject
    early = log_checks(log(NCCL_LOG + RETRY.replace("timed out", "refused")))
    assert [check.state for check in early] == [CheckState.PASS, CheckState.WARN]
    assert any("RDMA operations ended in errors" in each.statement for each in log_checks(log(NCCL_LOG + COMPLETION)))
