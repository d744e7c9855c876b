"""What the kernel wrote before the instance was started is none of its faults, and is said to be left aside."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from build_evidence import HOST, T0, culprits, flat_pages, pid, said, steady_pages, verdict_of

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import Confidence, FaultClass, Subkind
from rankmuster.model.plane import Plane, PlaneState

SEGFAULT = "python[{pid}]: segfault at 0 ip 00007f2e sp 00007f2c error 6 in libnvidia-ml.so.1[11c2,7f2e+1000]"
KILL = "Out of memory: Killed process {pid} (python3) total-vm:3kB, anon-rss:9kB, file-rss:3kB"
XID = "NVRM: Xid (PCI:0000:fe:00): 79, pid={pid}, name=python3, GPU has fallen off the bus."
SXID = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 28 LTSSM Fault Up"


def facts(started_at: float | None = T0, processes: bool = True) -> Blob:
    """`instance.json` with a start, of two ranks or of nobody with a rank."""
    document: dict[str, object] = {"instance": "llm-0", "started_at": started_at, "last_look": T0 + 40}
    document["processes"] = [
        {"rank": rank, "pid": pid(rank), "host": HOST, "gpu": rank, "exit_code": None} for rank in range(2 * processes)
    ]
    return Blob("instance.json", json.dumps(document).encode())


def kernel(*lines: tuple[float, str], zone: str = "+00:00") -> Blob:
    """A kernel log as a collector writes it."""
    text = ""
    for at, line in lines:
        when = datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")
        text += f"{when}{zone} node7 kernel: {line.format(pid=pid(1))}\n"
    return Blob("kernel/dmesg.txt", text.encode())


@pytest.mark.parametrize("line", [SEGFAULT, KILL, XID, SXID])
@pytest.mark.parametrize("processes", [True, False])
def test_what_is_older_than_the_instance_accuses_nobody(line: str, processes: bool) -> None:
    verdict = verdict_of([facts(processes=processes), kernel((T0 - 600, line)), *flat_pages(T0 + 10, 20, 500.0)])
    assert verdict.class_ is FaultClass.INCONCLUSIVE
    assert verdict.suspects == ()
    assert "before the instance was started" in said(verdict)


@pytest.mark.parametrize(("line", "subkind"), [(KILL, Subkind.KILLED), (XID, Subkind.GPU_LOST)])
def test_what_happened_since_still_does(line: str, subkind: Subkind) -> None:
    old, new = (T0 - 600, line), (T0 + 12, line)
    verdict = verdict_of([facts(), kernel(old, new), *flat_pages(T0 + 12, 20, 500.0)])
    assert (verdict.subclass, culprits(verdict)) == (subkind, [1])
    assert "Left aside: 1 " in said(verdict)


def test_a_crash_of_nobody_known_is_a_lead_and_no_more() -> None:
    log = kernel((T0 + 12, SEGFAULT.replace("{pid}", "991234")))
    verdict = verdict_of([facts(processes=False), log, *flat_pages(T0 + 12, 20, 500.0)])
    assert verdict.confidence in (None, Confidence.POSSIBLE)
    assert culprits(verdict) == []


def test_a_crash_of_another_process_accuses_nobody_of_those_that_live() -> None:
    log = kernel((T0 + 12, SEGFAULT.replace("{pid}", "991234")))
    verdict = verdict_of([facts(), log, *flat_pages(T0 + 12, 20, 500.0)])
    assert verdict.suspects == ()


def test_a_clock_that_is_a_little_apart_loses_no_cause() -> None:
    verdict = verdict_of([facts(), kernel((T0 - 10, KILL)), *flat_pages(T0 + 1, 20, 500.0)])
    assert culprits(verdict) == [1]


@pytest.mark.parametrize("started_at", [None, T0 + 9_000])
def test_without_a_start_that_can_be_believed_nothing_is_left_aside(started_at: float | None) -> None:
    verdict = verdict_of([facts(started_at), kernel((T0 - 600, XID)), *flat_pages(T0 + 10, 20, 500.0)])
    assert verdict.subclass is Subkind.GPU_LOST


def test_a_local_time_is_not_compared() -> None:
    log = Blob("kernel/dmesg.txt", f"[Sun Nov 29 20:00:00 2026] {KILL.format(pid=pid(1))}\n".encode())
    verdict = verdict_of([facts(), log, *flat_pages(T0 + 10, 20, 500.0)])
    assert culprits(verdict) == [1]


def test_a_link_that_went_down_before_is_still_down() -> None:
    log = kernel((T0 - 600, "mlx5_core 0000:1a:00.0 eth0: Link down"), (T0 - 600, SEGFAULT))
    verdict = verdict_of([facts(processes=False), log, *flat_pages(T0 + 10, 20, 500.0)])
    assert "Link down" in said(verdict)
    assert "Left aside: 1 crash that" in said(verdict)


def test_the_kernel_plane_has_spoken_though_all_of_it_is_old() -> None:
    verdict = verdict_of([facts(), kernel((T0 - 600, SEGFAULT)), *steady_pages(T0 + 10, 20)])
    assert verdict.class_ is FaultClass.HEALTHY
    row = next(row for row in verdict.planes if row.plane is Plane.KERNEL)
    assert row.state is PlaneState.SPOKE
    assert "1 more from before" in row.note


def test_a_gpu_that_was_lost_before_is_named_as_such() -> None:
    verdict = verdict_of([facts(), kernel((T0 - 600, XID)), *flat_pages(T0 + 10, 20, 500.0)])
    assert "GPU 0000:fe:00 was among them" in said(verdict)
