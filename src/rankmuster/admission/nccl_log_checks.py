"""NCCL's log of a multi-node start: did every link come up at once, or only after retries?

A link that needed three attempts works today and not tomorrow: it refuses, though the benchmark ran.
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


def log_checks(observations: Sequence[object]) -> list[Check]:
    """`observations`: of NCCL's logs; none: nothing is said."""
    if not observations:
        return []
    problems = [each for each in observations if isinstance(each, NcclProblem) and each.primary and not each.of_ras]
    checks = []
    for kind, words in (*REFUSES.items(), *SAID.items()):
        those = [problem for problem in problems if problem.kind is kind]
        if not those:
            continue
        peers = Counter(problem.peer or "an unnamed peer" for problem in those)
        who = ", ".join(f"{peer} ({count})" for peer, count in peers.most_common(MOST_NAMED))
        refuses = kind in REFUSES
        checks.append(
            Check(
                "nccl-log",
                CheckGroup.NETWORK,
                CheckState.FAIL if refuses else CheckState.WARN,
                who,
                f"{words}, {len(those)} line(s): {those[0].text[:200]}",
                "look at the port, cable and switch between these two" if refuses else "",
                tuple(problem.origin.reference for problem in those[:MOST_NAMED]),
                required=refuses,
            )
        )
    if not any(check.state is CheckState.FAIL for check in checks):
        words = "every connection came up at the first attempt"
        checks.insert(0, Check("nccl-log", CheckGroup.NETWORK, CheckState.PASS, "all ranks", words))
    return checks
