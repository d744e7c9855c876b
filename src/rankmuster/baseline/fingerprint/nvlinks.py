"""What a node's NVLinks can do: how many each GPU has, and where they lead, lost ones included.

A link that is down often does not say where it led. It is taken to lead where the GPU's other links do if all of those
lead to one place, where those of the same model do if none of its own say, and to the only other GPU that misses as
many. A node with a lost link then keeps its topology hash, is compared with its own kind and refused there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.baseline.fingerprint.unknowns import Unknowns
from rankmuster.model.node_path import GpuPath
from rankmuster.model.unknown import Unknown

SWITCH = "switch"
_INACTIVE = "inactive"
_PEER = "gpu:"


@dataclass(frozen=True, slots=True)
class Fabric:
    """`elsewhere`: per GPU index its links by "switch", "cpu", "nowhere". `between`: (GPU, GPU) -> links, both ways."""

    elsewhere: dict[int, Counter[str]]
    between: dict[tuple[int, int], int]


def fabric_of(gpus: Sequence[GpuPath], unknowns: Unknowns) -> Fabric:
    """The links of all GPUs; what cannot be known is noted in `unknowns`."""
    said = {gpu.index: _said(gpu, unknowns) for gpu in gpus}
    lost = {index: count for index, (_, count) in said.items() if count}
    for index, count in lost.items():
        own = set(said[index][0])
        alike = own or _of_same_model(index, gpus, said)
        if len(alike) == 1:
            said[index][0][next(iter(alike))] += count
        elif not alike:
            said[index][0]["nowhere"] += count
        elif len(lost) == 2 and len(set(lost.values())) == 1:
            other = next(one for one in lost if one != index)
            said[index][0][f"{_PEER}{other}"] += count
        else:
            unknowns.add(
                f"GPU {index} NVLinks", f"{count} links are down and do not say which of its peers they led to"
            )
    elsewhere: dict[int, Counter[str]] = {}
    between: dict[tuple[int, int], int] = {}
    for index, (remotes, _) in said.items():
        elsewhere[index] = Counter({remote: n for remote, n in remotes.items() if not remote.startswith(_PEER)})
        for remote, n in remotes.items():
            peer = remote.removeprefix(_PEER)
            if peer != remote:
                between.update(_both(index, peer, n, said, between, unknowns))
    return Fabric(elsewhere, between)


def all_linked(gpus: Sequence[GpuPath]) -> bool | Unknown:
    """Whether every pair of GPUs has NVLinks between them, over switches or directly; True for a single GPU."""
    unknowns = Unknowns()
    fabric = fabric_of(gpus, unknowns)
    if unknowns:
        return unknowns.as_unknown()
    return all(
        (one.index, other.index) in fabric.between
        or (fabric.elsewhere[one.index][SWITCH] > 0 and fabric.elsewhere[other.index][SWITCH] > 0)
        for one in gpus
        for other in gpus
        if one.index != other.index
    )


def _said(gpu: GpuPath, unknowns: Unknowns) -> tuple[Counter[str], int]:
    """(links by where they lead, links that are down and do not say)."""
    remotes: Counter[str] = Counter()
    lost = 0
    for link in unknowns.known(f"GPU {gpu.index} NVLinks", gpu.links, ()):
        if not isinstance(link.remote, Unknown):
            remotes[link.remote] += 1
        elif not isinstance(link.state, Unknown) and link.state == _INACTIVE:
            lost += 1
        else:
            unknowns.add(f"GPU {gpu.index} NVLink remote ends", link.remote.reason)
    return remotes, lost


def _of_same_model(index: int, gpus: Sequence[GpuPath], said: dict[int, tuple[Counter[str], int]]) -> set[str]:
    """Where links of GPUs of the same model lead; peers are no answer for another GPU, a switch is."""
    model = next(gpu.model for gpu in gpus if gpu.index == index)
    return {
        remote for gpu in gpus if gpu.model == model for remote in said[gpu.index][0] if not remote.startswith(_PEER)
    }


def _both(
    index: int,
    peer: str,
    links: int,
    said: dict[int, tuple[Counter[str], int]],
    between: dict[tuple[int, int], int],
    unknowns: Unknowns,
) -> dict[tuple[int, int], int]:
    """The links of a pair, as many as either end says: an end that is down may have forgotten the other."""
    if not peer.isdigit() or int(peer) not in said or int(peer) == index:
        unknowns.add(f"GPU {index} NVLink remote ends", f"they lead to GPU {peer[:20]}, which was not read")
        return {}
    number = max(links, between.get((index, int(peer)), 0))
    return {(index, int(peer)): number, (int(peer), index): number}
