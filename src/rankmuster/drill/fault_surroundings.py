"""The variables with which ranks are started where a fault lies in what surrounds them."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from rankmuster.drill.fault_kinds import Fault, Place
from rankmuster.drill.fault_needs import OTHER_NCCL
from rankmuster.drill.faults import fault_named
from rankmuster.drill.link import Link
from rankmuster.drill.own_place import MOUNTS_OF
from rankmuster.drill.plan import Backend, JobPlan

ABSENT_INTERFACE = "rmnone0"
"""A name that no interface has."""
PIPES = ("TORCH_FR_DUMP_PIPE_FILE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
"""By which anybody asks a rank for its dump."""

Variables = dict[str, str | None]
"""None: the variable is taken away."""


def variables(fault: Fault, backend: Backend, environment: Mapping[str, str], *, culprit: bool) -> Variables:
    """What a rank is given besides; `culprit`: whether it is the one that has the fault. A link's own stand in `link`.

    `environment`: of this program, with what the user named there.
    """
    given: Variables = {}
    if fault.group_seconds is not None:
        given |= dict.fromkeys(PIPES)
    if backend is Backend.NCCL and fault.place is not None:
        given |= _PATHS.get(fault.place, {})
    if not culprit:
        return given
    if fault.place is Place.WRONG_INTERFACE:
        given["NCCL_SOCKET_IFNAME" if backend is Backend.NCCL else "GLOO_SOCKET_IFNAME"] = ABSENT_INTERFACE
    if fault.place is Place.OTHER_NCCL:
        given["LD_PRELOAD"] = environment.get(OTHER_NCCL, "")
    return given


def rank_variables(plan: JobPlan, rank: int, store: socket.socket, link: Link | None, first: int | None) -> Variables:
    """All that this rank is given besides what every process of the job has. `store`: where the ranks meet. `first`:
    pid of the rank that was started before this one, None of the first; some faults have it shared with the others."""
    host, port = store.getsockname()[:2]
    fault, culprit, ranks = fault_named(plan.fault), rank == plan.culprit, str(plan.ranks)
    common = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": host, "MASTER_PORT": str(port)}
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        **common,
        **variables(fault, plan.backend, os.environ, culprit=culprit),
        **({MOUNTS_OF: str(first)} if fault.place is Place.SMALL_SHM and not culprit else {}),
        **(link.environment(plan.backend, culprit=culprit) if link is not None else {}),
    }


def merged(environment: Mapping[str, str], given: Mapping[str, str | None]) -> dict[str, str]:
    """The environment with what is given, and without what is taken away."""
    kept = {name: value for name, value in environment.items() if name not in given}
    return kept | {name: value for name, value in given.items() if value is not None}


_NO_PEERS: Variables = {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
_PATHS: Mapping[Place, Variables] = {
    # cuMem host memory would take the place of /dev/shm since NCCL 2.24.
    Place.SMALL_SHM: {**_NO_PEERS, "NCCL_SHM_DISABLE": None, "NCCL_CUMEM_HOST_ENABLE": "0"},
    Place.MEMLOCK: {**_NO_PEERS, "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": None},
    Place.OWN_NETWORK: {**_NO_PEERS, "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"},
}
"""The way that NCCL has to go on all ranks, so that what is not as it should be is met."""
