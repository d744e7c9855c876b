"""CUDA errors as processes and NCCL report them: memory and links of the device itself, or the process's own context.

A device's error is its rank's alone. An illegal access or a failed launch also reaches peers that map the memory, so
it is a lead, and only where one rank alone has it.
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.init_causes import OWN_FAULT
from rankmuster.diagnose.finding import Finding, accuse, quoted
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import CudaError
from rankmuster.model.nccllog import NcclProblem, NcclProblemKind
from rankmuster.model.plane import Plane

NAME = "cuda-errors"

OF_THE_DEVICE = {
    214: "an uncorrectable memory error of the GPU: reset it, and look at its remapped rows",
    220: "an uncorrectable NVLink error: look at nvidia-smi nvlink -e and the kernel log",
}
"""cudaErrors that a program cannot bring about (driver_types.h)."""


def detect(context: Context) -> list[Finding]:
    """At most one accusation."""
    for error in context.evidence.of(CudaError):
        if error.code in OF_THE_DEVICE:
            return [_device(context, error)]
    own = [
        problem
        for problem in context.evidence.of(NcclProblem)
        if problem.kind is NcclProblemKind.CUDA and OWN_FAULT.search(problem.text)
    ]
    return [_context(context, own)] if own else []


def _device(context: Context, error: CudaError) -> Finding:
    rank = context.roster.writer(error.origin)
    meaning = OF_THE_DEVICE[error.code or 0]
    who = f"rank {rank}" if rank is not None else "a process"
    statement = f"CUDA error {error.code} in {who} ({quoted(error.text)}): {meaning}"
    accusation = accuse(
        Subkind.GPU_LOST,
        Confidence.LIKELY,
        culprits=(rank,) if rank is not None else (),
        victims=tuple(other for other in context.world if other != rank) if rank is not None else (),
        why={rank: f"met CUDA error {error.code} of its GPU: {quoted(error.text)}"} if rank is not None else {},
        scope=Scope.NODE,
        at=context.time(error.origin.stamp),
    )
    return Finding(NAME, Plane.FRAMEWORK_LOG, statement, (error.origin.reference,), accusation)


def _context(context: Context, own: list[NcclProblem]) -> Finding:
    first = own[0]
    found = {context.roster.writer(problem.origin) for problem in own}
    rank = found.pop() if len(found) == 1 else None
    where = f"rank {rank}" if rank is not None else first.origin.host or "a process"
    statement = f"NCCL met a CUDA error of its own process on {where}: {quoted(first.text)}"
    accusation = accuse(
        Subkind.EXITED,
        Confidence.POSSIBLE,
        suspects=(rank,) if rank is not None else (),
        why={rank: f"lost its CUDA context: {quoted(first.text)}"} if rank is not None else {},
        scope=Scope.RANK,
        at=context.time(first.origin.stamp),
    )
    evidence = tuple(problem.origin.reference for problem in own[:4])
    return Finding(NAME, Plane.NCCL_LOG, statement, evidence, accusation)
