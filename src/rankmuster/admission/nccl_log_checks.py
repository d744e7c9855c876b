"""NCCL's log of a multi-node start: did every link come up at once, or only after retries?

A connection that timed out or found no route and came up later works today and not tomorrow: it refuses, though the
benchmark ran. One that was refused at first is a rank that did not listen yet, which is how jobs start: it is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rankmuster.admission.gathering import MOST_NAMED
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.nccllog import NcclProblem, NcclProblemKind

REFUSES = {
    NcclProblemKind.CONNECT_RETRY: "connections came up only after retries",
    NcclProblemKind.CONNECT_FAILED: "connections failed",
    NcclProblemKind.IB_COMPLETION: "RDMA operations ended in errors",
    NcclProblemKind.IB_ASYNC: "an RDMA adapter reported an event (port error, path migrated)",
    NcclProblemKind.IB_DEVICE_FAILED: "an RDMA adapter failed, and NCCL went on without it",
    NcclProblemKind.IB_QP: "RDMA connections could not be set up",
    NcclProblemKind.GDR_MEMORY: "GPU memory could not be registered for RDMA",
    NcclProblemKind.SHM: "shared memory failed",
    NcclProblemKind.NO_INTERFACE: "no network interface fits",
    NcclProblemKind.P2P_DISABLED: "peer-to-peer is disabled between GPUs that are connected",
}
SAID = {
    NcclProblemKind.NVLS: "NVLink SHARP could not be set up",
    NcclProblemKind.MNNVL: "multi-node NVLink could not be set up",
    NcclProblemKind.NET_UNAVAILABLE: "a network could not be used",
    NcclProblemKind.GDR_DISABLED: "GPUDirect RDMA is off for an adapter",
    NcclProblemKind.NET_PLUGIN: "a network plugin complained",
}


AFTER_EFFECTS_TOO = frozenset(
    {NcclProblemKind.CONNECT_RETRY, NcclProblemKind.GDR_DISABLED, NcclProblemKind.NET_UNAVAILABLE}
)
"""Kinds that convict nobody of a stop, so that the reader calls them no cause; here they are what is asked for."""

_NOT_YET = "refused"
"""ECONNREFUSED: nobody listened at that port, yet. The host itself answered."""


def log_checks(observations: Sequence[object]) -> list[Check]:
    """`observations`: of NCCL's logs; none: nothing is said."""
    if not observations:
        return []
    problems = [
        each
        for each in observations
        if isinstance(each, NcclProblem) and not each.of_ras and (each.primary or each.kind in AFTER_EFFECTS_TOO)
    ]
    checks = []
    for kind, words in (*REFUSES.items(), *SAID.items()):
        those = [problem for problem in problems if problem.kind is kind]
        grave = [problem for problem in those if kind in REFUSES and not _harmless(problem)]
        light = [problem for problem in those if problem not in grave]
        advice = "look at the port, cable and switch between these two"
        checks += _one(grave, CheckState.FAIL, words, advice)
        checks += _one(light, CheckState.WARN, _EARLY if kind is NcclProblemKind.CONNECT_RETRY else words, "")
    if not any(check.state is CheckState.FAIL for check in checks):
        words = "no connection had to be tried again" if not checks else "no link failed"
        checks.insert(0, Check("nccl-log", CheckGroup.NETWORK, CheckState.PASS, "all ranks", words))
    return checks


_EARLY = "ranks that did not listen yet were tried again, as jobs start"


def _harmless(problem: NcclProblem) -> bool:
    """A peer that was not there yet, and an adapter's event that says of itself that it is not fatal."""
    said = dict(problem.detail)
    if problem.kind is NcclProblemKind.CONNECT_RETRY:
        return _NOT_YET in (said.get("error") or problem.text).lower()
    return problem.kind is NcclProblemKind.IB_ASYNC and said.get("fatal") == "no"


def _one(those: Sequence[NcclProblem], state: CheckState, words: str, advice: str) -> list[Check]:
    if not those:
        return []
    peers = Counter(problem.peer or "an unnamed peer" for problem in those)
    who = ", ".join(f"{peer} ({count})" for peer, count in peers.most_common(MOST_NAMED))
    statement = f"{words}, {len(those)} line(s): {those[0].text[:200]}"
    evidence = tuple(problem.origin.reference for problem in those[:MOST_NAMED])
    refuses = state is CheckState.FAIL
    return [Check("nccl-log", CheckGroup.NETWORK, state, who, statement, advice, evidence, required=refuses)]
