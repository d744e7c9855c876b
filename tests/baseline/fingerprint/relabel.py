"""The same machine under other names: another order of everything, other buses, names, UUIDs and NUMA numbers."""

from __future__ import annotations

import random
from dataclasses import replace

from rankmuster.model.node_path import GpuPath, NodePath, NvLink


def relabelled(path: NodePath, seed: int) -> NodePath:
    chance = random.Random(seed)
    assert isinstance(path.pci, tuple)
    assert isinstance(path.gpus, tuple)
    assert isinstance(path.nics, tuple)
    places = chance.sample(range(1 << 20), len(path.pci))
    where = {
        node.address: f"{place >> 12:04x}:{(place >> 4) & 255:02x}:{place & 15:02x}.0"
        for node, place in zip(path.pci, places, strict=True)
    }
    roots = {node.root for node in path.pci}
    root = dict(zip(sorted(roots), chance.sample([f"pci{n:04x}:00" for n in range(999)], len(roots)), strict=True))
    numas = sorted({node.numa for node in path.pci if node.numa != -1})
    numa = {-1: -1, **dict(zip(numas, chance.sample(range(32), len(numas)), strict=True))}
    pci = [
        replace(
            node,
            address=where[node.address],
            root=root[node.root],
            parent=None if node.parent is None else where[node.parent],
            numa=numa[node.numa],
        )
        for node in path.pci
    ]
    chance.shuffle(pci)
    number = dict(zip(range(len(path.gpus)), chance.sample(range(len(path.gpus)), len(path.gpus)), strict=True))

    def gpu(one: GpuPath) -> GpuPath:
        return replace(
            one,
            index=number[one.index],
            uuid=f"GPU-{chance.getrandbits(64):x}",
            bus_id=where[one.bus_id],
            numa=numa[one.numa],
            links=tuple(link(each) for each in one.links),
        )

    def link(one: NvLink) -> NvLink:
        _kind, colon, peer = one.remote.partition(":")
        return replace(one, remote=f"gpu:{number[int(peer)]}") if colon else one

    gpus = [gpu(one) for one in path.gpus]
    chance.shuffle(gpus)
    nics = [
        replace(
            nic,
            name=f"nic{chance.getrandbits(32)}",
            guid=f"{chance.getrandbits(64):x}",
            address=where.get(nic.address, nic.address),
            numa=numa.get(nic.numa, nic.numa),
        )
        for nic in path.nics
    ]
    chance.shuffle(nics)
    return replace(path, host=f"host-{seed}", pci=tuple(pci), gpus=tuple(gpus), nics=tuple(nics), matrices={})
