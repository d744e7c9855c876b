"""Which GPU error is the root, and when a GPU is not to blame for what ended on it."""

from __future__ import annotations

import json

from build_evidence import culprits, kernel, said, verdict_of

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import Confidence, FaultClass, Role, Subkind, SuspectKind
from rankmuster.model.verdict import Verdict

CLEAN_UP = "[ 501.2] NVRM: Xid (PCI:0000:5d:00): 45, pid=902, name=python3, Ch 00000010"
HANGING_SWITCH = (
    "[ 501.1] nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 12028, Non-fatal, Link 44 egress non-posted PRIV error (First)"
)
FAULT = "[ 501.2] NVRM: Xid (PCI:0000:5d:00): 31, pid=902, name=python3, Ch 00000012, intr 00000000. MMU Fault"
OFF_BUS = "[ 501.2] NVRM: Xid (PCI:0000:5d:00): 79, pid=902, name=python3, GPU has fallen off the bus."


def job() -> Blob:
    processes = [
        {"rank": r, "pid": 902 + r, "host": "192.0.2.2", "gpu": r, "bus_id": f"0000:5{'de'[r]}:00"} for r in (0, 1)
    ]
    return Blob("instance.json", json.dumps({"instance": "x", "world_size": 2, "processes": processes}).encode())


def kind(verdict: Verdict) -> tuple[FaultClass, Subkind | None]:
    return verdict.class_, verdict.subclass


def gpu_culprits(verdict: Verdict) -> list[object]:
    return [s.gpu for s in verdict.suspects if s.kind is SuspectKind.GPU and s.role is Role.CULPRIT]


def test_a_clean_up_alone_is_a_lead_and_convicts_no_gpu() -> None:
    found = verdict_of([kernel(CLEAN_UP)])
    assert found.confidence in (None, Confidence.POSSIBLE)
    assert gpu_culprits(found) == []
    assert "somebody ended that program" in " ".join(found.would_decide)


def test_a_clean_up_of_a_rank_is_no_conviction_of_it() -> None:
    found = verdict_of([job(), kernel(CLEAN_UP)])
    assert culprits(found) == []
    assert found.confidence in (None, Confidence.POSSIBLE)


def test_a_switch_whose_error_hangs_leads_before_the_clean_up_that_follows() -> None:
    for blobs in ([kernel(HANGING_SWITCH, CLEAN_UP)], [job(), kernel(HANGING_SWITCH, CLEAN_UP)]):
        found = verdict_of(blobs)
        assert kind(found) == (FaultClass.TRANSPORT_STALL, Subkind.LINK_ERROR)
        assert culprits(found) == []
        assert gpu_culprits(found) == []
        assert "0000:5d:00 is the clean-up that follows" in said(found)


def test_a_gpu_that_survives_is_where_it_happened_and_its_process_is_named() -> None:
    found = verdict_of([kernel(FAULT)])
    assert gpu_culprits(found) == []
    assert [(s.kind, s.pid, s.gpu) for s in found.suspects] == [(SuspectKind.PROCESS, 902, "0000:5d:00")]


def test_the_reason_of_a_rank_follows_its_number() -> None:
    lost, faulted = (verdict_of([job(), kernel(line)]) for line in (OFF_BUS, FAULT))
    assert "rank 0 on 192.0.2.2 (pid 902, GPU 0) uses GPU 0000:5d:00, which reported Xid 79" in lost.summary
    assert "rank 0 on 192.0.2.2 (pid 902, GPU 0) lost its CUDA context to Xid 31" in faulted.summary
