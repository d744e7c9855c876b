"""The PCI tree for a comparison: the links of GPUs and NICs themselves, and the bridges above them, which are named by
the first device below them and the steps up from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankmuster.model.unknown import Unknown

_Leaf = str | int | float | bool | None | Unknown
_MOST_STEPS = 64


_LINK = ("width", "generation", "width_max", "generation_max")
_MOVING = "generation"
"""Falls on an idle GPU, and on the port right above it; a NIC's does not."""


def end_leaves(pci: Sequence[Any], gpus: Sequence[Any], nics: Sequence[Any]) -> dict[str, _Leaf]:
    """`nics/mlx5_0/pcie/width` of /sys, and `gpus/0/pcie/width`, the least of what NVML and /sys say: both look
    at the same link, and whichever is lower limits it."""
    tree = _tree(pci)
    found: dict[str, _Leaf] = {}
    for gpu in (one for one in gpus if isinstance(one, Mapping)):
        said = [gpu.get("pcie"), _link(tree, gpu.get("bus_id"))]
        for name in _LINK:
            values = [link[name] for link in said if isinstance(link, Mapping) and name in link]
            if values and name != _MOVING:
                found[f"gpus/{gpu.get('index')}/pcie/{name}"] = _least(values)
    for nic in (one for one in nics if isinstance(one, Mapping)):
        link = _link(tree, nic.get("address"))
        at = f"nics/{str(nic.get('name')).replace('/', '_')}/pcie"
        found |= {f"{at}/{name}": link[name] for name in _LINK if name in link}
    return found


def _tree(pci: Sequence[Any]) -> dict[str, Mapping[str, Any]]:
    return {node["address"]: node for node in pci if isinstance(node, Mapping) and isinstance(node.get("address"), str)}


def _link(tree: Mapping[str, Mapping[str, Any]], address: Any) -> Mapping[str, Any]:
    link = tree[address].get("link") if isinstance(address, str) and address in tree else None
    return link if isinstance(link, Mapping) else {}


def _least(values: Sequence[Any]) -> _Leaf:
    """0 is no link at all (virtual machines' own devices), which says nothing where another source knows one."""
    numbers = [value for value in values if isinstance(value, (int, float))]
    first: _Leaf = values[0]
    return min((number for number in numbers if number), default=numbers[0] if numbers else first)


def bridge_leaves(pci: Sequence[Any], gpus: Sequence[Any], nics: Sequence[Any]) -> dict[str, _Leaf]:
    """`bridges/GPU 0 + 2/link/width`: of the second bridge above GPU 0. Each bridge stands under one name."""
    tree = _tree(pci)
    devices = [(f"GPU {gpu.get('index')}", gpu.get("bus_id")) for gpu in gpus if isinstance(gpu, Mapping)]
    devices += [
        (str(nic.get("name")).replace("/", "_"), nic.get("address")) for nic in nics if isinstance(nic, Mapping)
    ]
    found: dict[str, _Leaf] = {}
    named: set[str] = set()
    for name, address in devices:
        node = tree.get(address) if isinstance(address, str) else None
        for step in range(1, _MOST_STEPS):
            parent = node.get("parent") if node is not None else None
            node = tree.get(parent) if isinstance(parent, str) else None
            if node is None or parent in named:
                break
            named.add(str(parent))
            found |= _bridge(f"bridges/{name} + {step}", node, right_above_gpu=step == 1 and name.startswith("GPU"))
    return found


def _bridge(at: str, node: Mapping[str, Any], *, right_above_gpu: bool) -> dict[str, _Leaf]:
    found: dict[str, _Leaf] = {f"{at}/device": f"{node.get('vendor')}:{node.get('device')}"}
    link = node.get("link")
    if isinstance(link, Mapping):
        moving = _MOVING if right_above_gpu else None
        found |= {f"{at}/link/{name}": link[name] for name in _LINK if name in link and name != moving}
    return found
