"""The Inspector's lines: who is late, whether bandwidth drifted, and that ordinary spread accuses nobody."""

from __future__ import annotations

import json
import random

from build_evidence import culprits, instance, pid, said, verdict_of

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import FaultClass, Subkind


def inspector(rank: int, times: list[float], size: int = 1 << 24, bandwidth: list[float] | None = None) -> Blob:
    """One rank's JSON lines of all-reduces that took `times` microseconds."""
    lines = []
    for number, took in enumerate(times):
        entry = {
            "header": {"id": "0xabc", "rank": rank, "n_ranks": 4, "nnodes": 1},
            "metadata": {
                "inspector_output_format_version": "v4.0",
                "dump_timestamp_us": 1_795_986_400_000_000 + number * 1000,
                "hostname": "gpu7",
                "pid": pid(rank),
            },
            "coll_perf": {
                "coll": "AllReduce",
                "coll_sn": number,
                "coll_msg_size_bytes": size,
                "coll_exec_time_us": took,
                "coll_timing_source": "kernel_gpu",
                "coll_algobw_gbs": 1.0,
                "coll_busbw_gbs": bandwidth[number] if bandwidth else 250.0,
            },
        }
        lines.append(json.dumps(entry))
    return Blob(f"inspector/gpu7-pid{pid(rank)}.log", ("\n".join(lines) + "\n").encode())


def test_the_rank_that_never_waits_is_the_late_one() -> None:
    waits = [[5000.0] * 60 for _ in range(4)]
    waits[2] = [110.0] * 60
    verdict = verdict_of([instance(), *(inspector(rank, waits[rank]) for rank in range(4))])
    assert (verdict.class_, verdict.subclass) == (FaultClass.PERFORMANCE_DEGRADATION, Subkind.PERSISTENT)
    assert culprits(verdict) == [2]


def test_ordinary_spread_accuses_nobody() -> None:
    dice = random.Random(7)
    logs = [inspector(rank, [100.0 + dice.random() * 20 for _ in range(90)]) for rank in range(4)]
    verdict = verdict_of([instance(), *logs])
    assert culprits(verdict) == []
    assert verdict.class_ is FaultClass.INCONCLUSIVE


def test_bandwidth_that_falls_on_all_ranks_is_drift() -> None:
    fading = [250.0] * 60 + [200.0] * 30 + [150.0] * 60
    logs = [inspector(rank, [100.0 + rank] * 150, bandwidth=fading) for rank in range(4)]
    verdict = verdict_of([instance(), *logs])
    assert verdict.subclass is Subkind.DRIFT
    assert culprits(verdict) == []
    assert "250.0 to 150.0 GB/s" in said(verdict)


def test_a_few_operations_are_no_distribution() -> None:
    logs = [inspector(rank, [5000.0 if rank else 100.0] * 8) for rank in range(4)]
    assert culprits(verdict_of([instance(), *logs])) == []
