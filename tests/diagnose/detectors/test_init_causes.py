"""Which warnings stop an init, and which only follow or come later."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

import pytest

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Subkind
from rankmuster.model.verdict import Verdict

PEER = "h0:10:20 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> failed : Connection refused\n"
SHM = "h0:10:20 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9637892 bytes, error: No space left on device (28)\n"
FAULT = "h0:10:20 [0] misc/strongstream.cc:395 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'\n"
TIMEOUT = (
    "[rank{0}]:[E331 10:22:01.403115 ProcessGroupNCCL.cpp:683] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600051 milliseconds\n"
)


def init(rank: int, phase: str) -> str:
    return (
        f"h{rank}:1{rank}:20 [0] NCCL INFO ncclCommInitRank comm 0x{rank + 1}00 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 "
        f"busId 1b000 commId 0xabc - Init {phase}\n"
    )


START = init(0, "START") + init(1, "START")
COMPLETE = init(0, "COMPLETE") + init(1, "COMPLETE")


def verdict(nccl: str, torch: str = "") -> Verdict:
    blobs = [Blob("nccl.log", nccl.encode())] + ([Blob("torch.log", torch.encode())] if torch else [])
    return diagnose(gather(blobs)).verdict


def test_connections_that_fail_long_after_the_start_are_no_stuck_init() -> None:
    assert verdict(PEER, TIMEOUT.format(0) + TIMEOUT.format(1)).class_ is not FaultClass.INIT_STUCK


def test_the_same_without_any_sign_of_work_is_one() -> None:
    found = verdict(PEER)
    assert (found.class_, found.subclass) == (FaultClass.INIT_STUCK, Subkind.BOOTSTRAP_UNREACHABLE)


def test_memory_that_the_first_collective_asks_for_still_belongs_to_the_start() -> None:
    found = verdict(START + COMPLETE + SHM)
    assert (found.class_, found.subclass) == (FaultClass.INIT_STUCK, Subkind.RESOURCE_LIMIT)


def test_a_fault_of_the_process_s_own_is_not_the_init_s() -> None:
    assert verdict(START + FAULT).class_ is FaultClass.PROCESS_OR_DEVICE_LOST


def test_versions_of_two_libraries_in_one_process_do_not_differ_between_ranks() -> None:
    both = "".join(
        f"h{rank}:1{rank}:20 [0] NCCL INFO NCCL version {version}+cuda12.4\n"
        for rank in range(2)
        for version in ("2.21.5", "2.27.5")
    )
    truncated = "h0:10:20 [0] bootstrap.cc:77 NCCL WARN Message truncated : received 256 bytes instead of 4\n"
    assert verdict(both + START + truncated).subclass is not Subkind.VERSION_MISMATCH


def network(found: Verdict) -> list[str]:
    return [finding.statement for finding in found.findings if finding.detector == "network-errors"]


def test_what_kept_an_init_from_its_end_is_not_judged_again_as_a_path_that_broke() -> None:
    wrong = "h0:10:20 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3\n"
    found = verdict(START + wrong)
    assert found.class_ is FaultClass.INIT_STUCK
    assert network(found) == []
    assert not any("link and error counters" in text for text in found.would_decide)


def test_the_same_warning_after_the_init_is_the_networks() -> None:
    broken = "h0:10:20 [0] misc/socket.cc:441 NCCL WARN socketProgress: Call to recv from 10.0.0.2<39222> failed : Connection timed out\n"
    assert network(verdict(START + COMPLETE + broken))


@pytest.mark.parametrize(
    "line",
    [
        "h0:10:20 [0] init.cc:1013 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000\n",
        "h0:10:20 [0] graph/xml.cc:243 NCCL WARN XML Parse error : unterminated quoted value\n",
        "h0:10:20 [0] init.cc:1 NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'\n",
        "h0:10:20 [0] net.cc:1 NCCL WARN Error: network IB not found.\n",
    ],
)
def test_a_start_that_was_set_up_wrongly_says_so(line: str) -> None:
    found = verdict(START + line)
    assert (found.class_, found.subclass) == (FaultClass.INIT_STUCK, Subkind.MISCONFIGURED)
    assert found.recovery.boundary is Boundary.PROCESS_GROUP
    assert any("only restart" in text for text in found.recovery.do_not)


def test_a_warning_of_another_cause_is_not_called_an_unreachable_bootstrap() -> None:
    found = verdict(START + "h0:10:20 [0] graph/search.cc:1137 NCCL WARN Could not find a path for pattern 4\n")
    assert (found.class_, found.subclass) == (FaultClass.INIT_STUCK, None)
    assert found.confidence is Confidence.POSSIBLE


def test_hosts_whose_bootstraps_are_on_two_networks_are_told_with_their_addresses() -> None:
    chosen = "".join(
        f"h{rank}:1{rank}:1{rank} [0] NCCL INFO Bootstrap : Using {name}:{address}<0>\n"
        for rank, (name, address) in enumerate((("bond0", "10.31.4.7"), ("eno1", "192.168.9.5")))
    )
    said = verdict(chosen + START).findings[0].statement
    assert "chose bond0, eno1, which are not on one network: h0 bond0:10.31.4.7; h1 eno1:192.168.9.5" in said


def test_a_failed_imex_service_is_not_answered_with_the_fabric_manager() -> None:
    nccl = START + "h0:10:20 [0] transport/p2p.cc:1 NCCL WARN Cuda failure 101 'invalid device ordinal'\n"
    journal = "Nov 29 20:00:00 h0 systemd[1]: nvidia-imex.service: Failed with result 'exit-code'.\n"
    blobs = [Blob("nccl.log", nccl.encode()), Blob("journal.txt", journal.encode())]
    said = diagnose(gather(blobs)).verdict.findings[0].statement
    assert "the IMEX service had failed before it (nvidia-imex.service: Failed with result 'exit-code')." in said
    assert "Fabric Manager has to run" not in said
