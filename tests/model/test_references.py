"""Findings point at lines in one form, whatever plane the line is of."""

from __future__ import annotations

from rankmuster.model.frameworklog import LineOrigin
from rankmuster.model.kernel import KernelOrigin
from rankmuster.model.nccllog import LogOrigin, NcclProblem, NcclProblemKind

NCCL = LogOrigin("nccl/a.log", 17, None, None, None, None, None, None)


def test_every_origin_is_file_and_line() -> None:
    assert NCCL.reference == "nccl/a.log#L17"
    assert LineOrigin("logs/a.log", 3, None, None, None, None).reference == "logs/a.log#L3"
    assert KernelOrigin("kernel/a.log", 1, None, None).reference == "kernel/a.log#L1"


def test_lines_of_the_ras_thread_are_not_the_jobs() -> None:
    said = NcclProblem(NCCL, NcclProblemKind.CLOSED_BY_PEER, True, "closed", None, (("thread", "ras"),))
    assert said.of_ras
    assert not NcclProblem(NCCL, NcclProblemKind.CLOSED_BY_PEER, True, "closed").of_ras
