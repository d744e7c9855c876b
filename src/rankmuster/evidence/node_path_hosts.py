"""Which of the evidence is of one node: by the host that each piece names, and never two nodes made one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rankmuster.model.captured_path import (
    CapturedCpu,
    CapturedInterfaces,
    CapturedSpace,
    CapturedTree,
    NvlinkRemotes,
    RdmaDevice,
)
from rankmuster.model.nccllog import NcclTopology, NcclTransport, NcclTuning, NcclVersionLine
from rankmuster.model.node import NodeState
from rankmuster.model.topology import GpuFacts, NvlinkStatus, PciAccessControl, RdmaPort, TopologyMatrix

Piece: TypeAlias = (
    TopologyMatrix
    | GpuFacts
    | NvlinkStatus
    | NvlinkRemotes
    | RdmaPort
    | RdmaDevice
    | PciAccessControl
    | CapturedTree
    | CapturedInterfaces
    | CapturedCpu
    | CapturedSpace
    | NodeState
)

KINDS = (
    TopologyMatrix,
    GpuFacts,
    NvlinkStatus,
    NvlinkRemotes,
    RdmaPort,
    RdmaDevice,
    PciAccessControl,
    CapturedTree,
    CapturedInterfaces,
    CapturedCpu,
    CapturedSpace,
    NodeState,
)
"""What a node's path is made from; all of it names its host where the text does."""

BY_NCCL = (NcclTopology, NcclTuning, NcclTransport, NcclVersionLine)
"""What a run of NCCL tells of a node where nobody captured the node itself: its own view, and that alone."""

UNNAMED = "unnamed"
"""Stands for the host of what a text says before it names another host: `--host unnamed`."""


class NotOneNode(Exception):
    """The evidence is of no node, or of several and none was asked for; the message names them and what to do."""


def pieces(observations: Sequence[object]) -> list[Piece]:
    """Those of the observations that tell of a node's path."""
    return [each for each in observations if isinstance(each, KINDS)]


def hosts_in(observations: Sequence[object]) -> tuple[str, ...]:
    """The hosts that topology evidence names, sorted, with UNNAMED where a text names one for a part of it only; ()
    where none is named, and all of it is then of one node."""
    known = pieces(observations)
    found = {piece.host for piece in known if piece.host is not None}
    if _apart(known):
        found.add(UNNAMED)
    return tuple(sorted(found))


def of_host(observations: Sequence[object], host: str | None) -> tuple[str | None, list[Piece]]:
    """(the host's name, its pieces). Without `host`, of the only one. Raises NotOneNode."""
    known = pieces(observations)
    if not known and any(isinstance(each, BY_NCCL) for each in observations):
        return host, []
    if not known:
        raise NotOneNode(
            "nothing here tells of a node: give what nvidia-smi (topo -m, -q, nvlink -s), ibv_devinfo, ibstat, lspci "
            "-vvv or captures of /sys say (LC_ALL=C), or a bundle"
        )
    hosts = hosts_in(observations)
    if host is None and len(hosts) > 1:
        raise NotOneNode(f"this is of several hosts ({', '.join(hosts[:20])}): say which one is meant")
    if host is not None and hosts and host not in hosts:
        raise NotOneNode(f"nothing here is of {host}; it is of {', '.join(hosts[:20])}")
    chosen = host if host is not None else (hosts[0] if hosts else None)
    apart = _apart(known)
    if chosen == UNNAMED and apart:
        return None, [piece for piece in known if piece.host is None and piece.source in apart]
    alone = len(hosts) <= 1  # then whatever names no host is of that one
    own = [piece for piece in known if piece.host == chosen or (piece.host is None and alone)]
    return chosen, own


def _apart(known: Sequence[Piece]) -> set[str]:
    """Sources in which a matrix names its host and another of the same kind does not: two machines in one text."""
    named = {(piece.source, piece.kind) for piece in known if isinstance(piece, TopologyMatrix) and piece.host}
    return {
        piece.source
        for piece in known
        if isinstance(piece, TopologyMatrix) and piece.host is None and (piece.source, piece.kind) in named
    }
