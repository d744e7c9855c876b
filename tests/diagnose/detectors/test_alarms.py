"""What engines and torch say of a stop is quoted, and convicts nobody."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

from build_evidence import culprits, log, said, verdict_of

STUCK = (
    "[rank2]:[E1129 21:08:13.152419115 ProcessGroupNCCL.cpp:1538] [PG ID 0 PG GUID 0(default_pg) Rank 2] ProcessGroupNCCL's watchdog "
    "got stuck for 480 seconds without making progress in monitoring enqueued collectives. This typically indicates a NCCL/CUDA API hang"
)
DESYNC = (
    "[rank0]:[E1129 21:08:13.152419115 ProcessGroupNCCL.cpp:1] [Rank 0] Watchdog found a desync\n"
    "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
    "\t   - [3] finished collective #749, but didn't join collective #751 (count from 1)"
)


def test_a_watchdog_that_was_stuck_itself_is_a_lead_and_asks_for_the_stack() -> None:
    found = verdict_of([log("rank2.log", STUCK)])
    assert "found the watchdog itself stuck on rank 2" in said(found)
    assert "interpreter lock (GIL)" in said(found)
    assert any("stacks of rank 2" in text for text in found.would_decide)
    assert culprits(found) == []


def test_torchs_own_desync_report_is_quoted_and_not_believed() -> None:
    found = verdict_of([log("rank0.log", DESYNC)])
    assert "desync report names rank 3 of its group as behind: a lead only" in said(found)
    assert culprits(found) == []
