"""The bridges above GPUs and NICs for a comparison, named by the first device below them and the steps up from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankmuster.model.unknown import Unknown

_Leaf = str | int | float | bool | None | Unknown
_MOST_STEPS = 64


def bridge_leaves(pci: Sequence[Any], gpus: Sequence[Any], nics: Sequence[Any]) -> dict[str, _Leaf]:
    """`bridges/GPU 0 + 2/link/width`: of the second bridge above GPU 0. Each bridge stands under one name."""
    tree = {node["address"]: node for node in pci if isinstance(node, Mapping) and isinstance(node.get("address"), str)}
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
        moving = ("generation",) if right_above_gpu else ()  # follows the idle GPU's
        names = ("width", "generation", "width_max", "generation_max")
        found |= {f"{at}/link/{name}": link[name] for name in names if name in link and name not in moving}
    return found
