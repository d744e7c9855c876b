"""What concerns nobody of the instance accuses nobody, and what a report is about is named although no rank is known."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

import json

import pytest

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import FaultClass, Progress, Role, Subkind
from rankmuster.model.verdict import Verdict

OOM = "[44930.3] Out of memory: Killed process 991234 (python3) total-vm:3kB, anon-rss:9kB, file-rss:3kB\n"
SEGFAULT = "[7.7] python3[991234]: segfault at 10 ip 00007f51 sp 00007ffe error 4 in libnccl.so.2[7f51+4a]\n"
XID31 = "[8121.5] NVRM: Xid (PCI:0000:fe:00): 31, pid=991234, name=python3, Ch 00000012, intr 00000000. MMU Fault\n"
XID79 = "[8121.5] NVRM: Xid (PCI:0000:fe:00): 79, pid=991234, name=python3, GPU has fallen off the bus.\n"
SMI = "Unable to determine the device handle for GPU 0000:fe:00.0: GPU is lost.  Reboot the system\n"


def verdict(**files: str) -> Verdict:
    return diagnose(gather(Blob(name, text.encode()) for name, text in files.items())).verdict


def instance() -> str:
    processes = [{"rank": r, "pid": 100 + r, "host": "a", "gpu": r, "bus_id": f"0000:1{r}:00"} for r in range(2)]
    return json.dumps({"instance": "x", "world_size": 2, "processes": processes})


@pytest.mark.parametrize("log", [OOM, SEGFAULT, XID31, XID79, SMI])
def test_others_processes_and_gpus_accuse_nobody(log: str) -> None:
    found = verdict(**{"instance.json": instance(), "kernel.txt": log})
    assert found.class_ in (FaultClass.INCONCLUSIVE, FaultClass.BLIND)
    assert found.suspects == ()


@pytest.mark.parametrize(
    ("log", "subkind"),
    [
        (OOM, Subkind.KILLED),
        (SEGFAULT, Subkind.KILLED),
        (XID31, Subkind.EXITED),
        (XID79, Subkind.GPU_LOST),
        (SMI, Subkind.GPU_LOST),
    ],
)
def test_a_report_of_nothing_else_is_about_it(log: str, subkind: Subkind) -> None:
    found = verdict(**{"kernel.txt": log})
    assert (found.class_, found.subclass) == (FaultClass.PROCESS_OR_DEVICE_LOST, subkind)
    assert not [suspect for suspect in found.suspects if suspect.role is Role.CULPRIT and suspect.rank is not None]


def test_a_crash_on_a_node_where_no_instance_was_found_is_told_and_stops_nobody() -> None:
    none = {"outcome": "nothing", "note": "no instance was found on this node, so there is no RAS to ask"}
    manifest = json.dumps({"schema": "rankmuster.bundle/1", "collectors": {"ras": none}, "instance": None, "files": {}})
    found = verdict(**{"manifest.json": manifest, "kernel/dmesg.txt": SEGFAULT})
    assert (found.class_, found.progress, found.suspects) == (FaultClass.INCONCLUSIVE, Progress.UNKNOWN, ())
    assert any("python3 (pid 991234) crashed" in finding.statement for finding in found.findings)
    killed = verdict(**{"manifest.json": manifest, "kernel/dmesg.txt": OOM})
    assert killed.subclass is Subkind.KILLED


def test_an_out_of_memory_kill_of_another_program_is_no_rank() -> None:
    assert verdict(**{"kernel.txt": OOM.replace("python3", "chrome")}).class_ is FaultClass.INCONCLUSIVE


def test_a_link_that_goes_down_on_a_one_host_instance_is_no_fault_of_it() -> None:
    link = "[5.1] mlx5_core 0000:5e:00.0 eth3: Link down\n"
    timeout = (
        "[rank{0}]:[E331 10:22:01.403115 ProcessGroupNCCL.cpp:683] [Rank {0}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600051 milliseconds\n"
    )
    logs = timeout.format(0) + timeout.format(1)
    found = verdict(**{"instance.json": instance(), "dmesg.txt": link, "torch.log": logs})
    assert found.class_ is not FaultClass.TRANSPORT_STALL
    assert any("needs no link" in finding.statement for finding in found.findings)
