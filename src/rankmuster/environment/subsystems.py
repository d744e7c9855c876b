"""Which parts of NCCL must speak for which fault: a class or sub-kind of a verdict -> NCCL_DEBUG_SUBSYS."""

from __future__ import annotations

from rankmuster.environment.nccl_table import SUBSYSTEM_SINCE
from rankmuster.environment.version import Version, at_least
from rankmuster.model.fault import CLASS_OF, FaultClass, Subkind

ALWAYS = ("INIT", "BOOTSTRAP", "ENV", "RAS")
"""Written once at init (and by RAS when a peer is lost): whose communicator is whose, which settings held."""
WIDER = ("NET", "GRAPH", "P2P", "SHM", "NVLS")
"""Written once at init as well: which path each connection takes."""
PER_CALL = frozenset({"COLL", "TUNING", "CALL", "PROXY", "ALL"})
"""One line or more for every call outside CUDA graphs."""

BY_CLASS: dict[FaultClass, tuple[str, ...]] = {
    FaultClass.INIT_STUCK: ("NET", "GRAPH", "P2P", "SHM", "NVLS"),
    FaultClass.COLLECTIVE_DESYNC: ("COLL", "CALL", "P2P"),
    FaultClass.TRANSPORT_STALL: ("NET", "PROXY", "P2P", "SHM"),
    FaultClass.PERFORMANCE_DEGRADATION: ("GRAPH", "TUNING", "NET"),
    FaultClass.PROCESS_OR_DEVICE_LOST: ("NET", "PROXY", "DESTROY"),
    FaultClass.HEALTHY: (),
    FaultClass.INCONCLUSIVE: ("NET", "GRAPH", "COLL", "P2P"),
    FaultClass.BLIND: ("NET", "GRAPH", "COLL", "P2P"),
}

BY_SUBKIND: dict[Subkind, tuple[str, ...]] = {
    Subkind.RANK_ABSENT: (),
    Subkind.NO_INTERFACE: ("NET",),
    Subkind.BOOTSTRAP_UNREACHABLE: ("NET",),
    Subkind.RENDEZVOUS_TIMEOUT: (),
    Subkind.VERSION_MISMATCH: (),
    Subkind.RESOURCE_LIMIT: ("SHM", "NET", "ALLOC", "ALLOC_HOST", "REG"),
    Subkind.MISCONFIGURED: ("NET", "GRAPH"),
    Subkind.FABRIC_NOT_READY: ("NVLS", "GRAPH", "P2P"),
    Subkind.MISSING_PEER: ("COLL", "CALL", "P2P", "NET"),
    Subkind.LINK_ERROR: ("NET", "PROXY"),
    Subkind.ADDRESS_OR_GID: ("NET",),
    Subkind.PATH_LOST: ("NET", "PROXY", "P2P"),
    Subkind.ALL_ENTERED_NONE_LEFT: ("NET", "PROXY", "P2P", "SHM", "COLL"),
    Subkind.WRONG_PATH: ("GRAPH", "TUNING", "NET", "P2P", "SHM", "NVLS"),
    Subkind.DRIFT: ("GRAPH", "TUNING", "NET"),
    Subkind.GPU_STALLED: ("COLL",),
    Subkind.UNRESPONSIVE: ("COLL", "PROXY"),
    Subkind.GPU_LOST: ("P2P", "NVLS", "NET"),
}
"""Where a sub-kind needs something else than its class."""


def suspected(name: str) -> FaultClass | Subkind:
    """A class (`transport_stall`), a sub-kind (`link_error`), or both (`transport_stall/link_error`).

    Raises ValueError that lists the names.
    """
    wanted = name.strip().lower().replace("-", "_").rpartition("/")[2]
    for kind in (FaultClass, Subkind):
        for member in kind:
            if member.value == wanted:
                return member
    names = [member.value for member in FaultClass] + [member.value for member in Subkind]
    raise ValueError(f"no class or sub-kind is called {name[:40]!r}; known are {', '.join(names)}")


def subsystems_for(suspect: FaultClass | Subkind | None, nccl: Version) -> tuple[str, ...]:
    """The words to log, those that this NCCL knows, in one fixed order."""
    if suspect is None:
        more = BY_CLASS[FaultClass.INCONCLUSIVE]
    elif isinstance(suspect, Subkind):
        more = BY_SUBKIND.get(suspect, BY_CLASS[CLASS_OF[suspect]])
    else:
        more = BY_CLASS[suspect]
    return known((*ALWAYS, *more), nccl)


def known(words: tuple[str, ...], nccl: Version) -> tuple[str, ...]:
    """Without those that this NCCL does not know (it would ignore them)."""
    return tuple(word for word in dict.fromkeys(words) if at_least(nccl, SUBSYSTEM_SINCE[word]))
