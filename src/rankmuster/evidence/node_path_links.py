"""A GPU's NVLinks from captured text: `nvlink -s` for their state, `nvlink -p` or the matrix for where they lead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rankmuster.evidence.pci import address
from rankmuster.model.node_path import NvLink
from rankmuster.model.topology import NvlinkStatus, TopologyMatrix
from rankmuster.model.unknown import Unknown

_NV = re.compile(r"NV(\d{1,3})")


@dataclass(frozen=True, slots=True)
class FarEnds:
    """`remotes`: of each GPU's links; `places`: which GPU sits at an address."""

    remotes: Mapping[int, Mapping[int, str]]
    places: Mapping[str, int]


def captured_links(
    index: int, status: NvlinkStatus | None, matrices: Iterable[TopologyMatrix], far: FarEnds
) -> tuple[NvLink, ...] | Unknown:
    """`nvlink -s` tells no remote end."""
    if status is None:
        return Unknown(f"no text tells the NVLinks of GPU {index} (nvidia-smi nvlink -s)")
    if not status.links:
        note = status.note or ""
        lost = "lost" in note or "Unknown Error" in note
        return Unknown(f"nvidia-smi says of GPU {index}: {note[:200]}") if lost else ()
    active = sum(speed is not None for speed in status.links)
    down = "sleep" if status.note and "sleep" in status.note.lower() else "inactive"
    version = Unknown("nvidia-smi nvlink -s does not tell it")
    return tuple(
        NvLink(
            link=number,
            state="active" if speed is not None else down,
            speed_gbps=speed if speed is not None else Unknown(f"the link is {down}"),
            version=version,
            remote=_remote(index, number, matrices, active, far),
        )
        for number, speed in enumerate(status.links)
    )


def _remote(index: int, number: int, matrices: Iterable[TopologyMatrix], active: int, far: FarEnds) -> str | Unknown:
    """`nvlink -p` tells where a link leads. Without it, links that reach every other GPU all at once go through
    switches; between two GPUs they may be either."""
    place = far.remotes.get(index, {}).get(number)
    if place is not None:
        gpu = far.places.get(address(place) or place)
        return f"gpu:{gpu}" if gpu is not None else "switch"
    for matrix in matrices:
        if matrix.kind == "m":
            words = [word for (row, column), word in matrix.cells.items() if row == f"GPU{index}" and column != row]
            peers = [int(match.group(1)) for word in words if (match := _NV.fullmatch(word))]
            if len(peers) >= 2 and sum(peers) > active:
                return "switch"
    return Unknown("no text tells where the links lead (nvidia-smi nvlink -p)")
