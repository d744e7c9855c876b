"""The facts of GPUs for a comparison: links as counts, since it does not matter which of 18 links is down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankmuster.model.unknown import Unknown

_Leaf = str | int | float | bool | None | Unknown
_AS_THEY_ARE = ("uuid", "bus_id", "model", "vbios", "numa")
PRESENT = "present"

STEADY_FACTS = (
    "Fabric / State",
    "Fabric / Status",
    "Persistence Mode",
    "GPU Virtualization Mode / Virtualization",
    "FB Memory Usage / Total",
)
"""Of what `nvidia-smi -q` says; the rest counts errors, which admission looks at, and differs at every look."""


def gpu_leaves(gpus: Sequence[Any]) -> dict[str, _Leaf]:
    """Facts by path, of `madeFrom/gpus`. What has another shape is passed over."""
    found: dict[str, _Leaf] = {}
    for number, gpu in enumerate(gpus):
        if not isinstance(gpu, Mapping):
            continue
        at = f"gpus/{gpu.get('index', number)}"
        found[at] = PRESENT
        found |= {f"{at}/{name}": gpu[name] for name in _AS_THEY_ARE if name in gpu}
        found |= _links(f"{at}/nvlinks", gpu.get("links"))
        facts = gpu.get("facts")
        if isinstance(facts, Mapping):
            steady = {name: value for name, value in facts.items() if str(name).startswith(STEADY_FACTS)}
            found |= {f"{at}/facts/{name}".replace(" / ", ", "): str(value) for name, value in steady.items()}
    return found


def _links(at: str, links: Any) -> dict[str, _Leaf]:
    if isinstance(links, Unknown):
        return {at: links}
    if not isinstance(links, (list, tuple)):
        return {}
    known = [link for link in links if isinstance(link, Mapping)]
    speeds = [link["speed_gbps"] for link in known if isinstance(link.get("speed_gbps"), (int, float))]
    remotes = sorted({link["remote"] for link in known if isinstance(link.get("remote"), str)})
    versions = sorted({link["version"] for link in known if isinstance(link.get("version"), str)})
    down = sum(1 for link in known if link.get("state") == "inactive")
    found: dict[str, _Leaf] = {
        f"{at}/count": len(known),
        f"{at}/up": len(known) - down,
        f"{at}/leads to": ", ".join(remotes) or "nowhere said",
    }
    if versions:
        found[f"{at}/version"] = ", ".join(versions)
    if speeds:
        found[f"{at}/slowest GB/s"] = min(speeds)
    return found
