"""Which warnings stop an init, and which only follow or come later."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import FaultClass, Subkind
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
