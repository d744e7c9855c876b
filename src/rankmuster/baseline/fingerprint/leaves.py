"""A fingerprint as single facts by path, the same path for the same thing on both sides of a comparison.

GPUs go by their number, NICs by their name, bridges by the device they lie above: bus numbers differ between machines
of one kind. Left out: what moves by itself (the current PCIe generation of an idle GPU), what says who and not what
(addresses; see `machine`), and what another fact says already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rankmuster.baseline.fingerprint.leaves_gpus import gpu_leaves
from rankmuster.baseline.fingerprint.leaves_network import nic_leaves
from rankmuster.baseline.fingerprint.leaves_pci import bridge_leaves, end_leaves
from rankmuster.baseline.fingerprint.setting_names import changes_choices
from rankmuster.baseline.fingerprint.settings import NCCL_UNKNOWN
from rankmuster.model.fingerprint import KIN_FIELDS, Fingerprint, NetworkDevice
from rankmuster.model.unknown import Unknown

Leaf = str | int | float | bool | None | Unknown
READ = "read"
"""Value of a part that was read, however much is in it: against the same part unknown."""

_SAID_BY_SETTINGS = {"sys_complete": "sys.complete", "iommu": "iommu", "gpudirect": "gpudirect", "shm_bytes": "shm"}
_MATRICES_IN_SETTINGS = ("r", "w")
_MOST_SHOWN = 12


def leaves_of(fingerprint: Fingerprint) -> dict[str, Leaf]:
    """Every fact by its path. Never raises: what a file holds of another shape is passed over."""
    found: dict[str, Leaf] = {path: _field(getattr(fingerprint, name)) for path, name in KIN_FIELDS.items()}
    found["ncclTestProfile"] = fingerprint.nccl_test_profile
    found |= {f"settings/{NCCL_UNKNOWN}": READ}
    found |= {f"settings/{name}": value for name, value in fingerprint.settings.items()}
    made = fingerprint.made_from
    for name in ("gpus", "nics", "pci"):
        part = made.get(name)
        found[name] = part if isinstance(part, Unknown) else READ
    found |= gpu_leaves(_list(made.get("gpus")))
    found |= nic_leaves(_list(made.get("nics")))
    tree = (_list(made.get("pci")), _list(made.get("gpus")), _list(made.get("nics")))
    found |= end_leaves(*tree) | bridge_leaves(*tree)
    for name in ("topology_source", "cuda_driver", "nvswitches"):
        if name in made:
            found[name] = scalar(made[name])
    found |= _below("cpu", made.get("cpu"))
    container = {
        name: value
        for name, value in _mapping(made.get("container")).items()
        if _SAID_BY_SETTINGS.get(name) not in fingerprint.settings
    }
    found |= _below("container", container)
    settings = made.get("nccl_settings")
    found |= {
        f"nccl_settings/{name}": scalar(value)
        for name, value in _mapping(settings).items()
        if not changes_choices(name)
    }
    found |= dict(_matrices(_mapping(made.get("matrices"))))
    found |= dict(_view(_mapping(made.get("nccl_view"))))
    return found


def scalar(value: Any) -> Leaf:
    """A value as a fact: lists of single values in words."""
    if value is None or isinstance(value, (str, int, float, Unknown)):
        return value
    if isinstance(value, (list, tuple)):
        shown = [str(one) for one in value if not isinstance(one, (Mapping, list))]
        more = len(value) - _MOST_SHOWN
        return ", ".join([*shown[:_MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]) or "none"
    return None


def _field(value: Any) -> Leaf:
    if isinstance(value, tuple):
        if value and isinstance(value[0], NetworkDevice):
            return ", ".join(_device(one) for one in value)
        return " ".join(str(one) for one in value) or "none"
    return scalar(value)


def _device(device: NetworkDevice) -> str:
    rate = "" if device.rate_gbps is None else f" {device.rate_gbps:g} Gb/s"
    firmware = "" if device.firmware is None else f" firmware {device.firmware}"
    return f"{device.count} x {device.model} {device.link_layer}{rate}{firmware}"


def _below(name: str, value: Any) -> dict[str, Leaf]:
    return {f"{name}/{key}": scalar(one) for key, one in _mapping(value).items()}


def _matrices(matrices: Mapping[str, Any]) -> Iterator[tuple[str, Leaf]]:
    """Each pair once, by the names that the matrix has for them."""
    for kind, matrix in matrices.items():
        if kind in _MATRICES_IN_SETTINGS:
            continue
        yield f"matrices/{kind}", READ
        rows = _mapping(_mapping(matrix).get("rows"))
        for row, cells in rows.items():
            for column, word in _mapping(cells).items():
                if row < column and isinstance(word, str):
                    back = _mapping(rows.get(column)).get(row, word)
                    yield f"matrices/{kind}/{row}-{column}", word if back == word else f"{word} and back {back}"


def _view(view: Mapping[str, Any]) -> Iterator[tuple[str, Leaf]]:
    """What NCCL said of itself, where a benchmark ran."""
    for name in ("graphs", "transports"):
        if name in view:
            yield f"nccl_view/{name}", scalar(view[name])
    for seen in _list(view.get("gpus")):
        if isinstance(seen, (list, tuple)) and len(seen) == 3:
            yield f"nccl_view/gpus/{seen[0]}", f"{seen[2]} NVLinks"
    for seen in _list(view.get("nets")):
        if isinstance(seen, (list, tuple)) and len(seen) == 3:
            name, speed, direct = seen
            yield (
                f"nccl_view/nets/{str(name).replace('/', '_')}",
                f"{speed} {'with' if direct else 'without'} GPUDirect",
            )
    for choice in _list(view.get("choices")):
        if isinstance(choice, Mapping):
            where = f"{choice.get('operation')} at {choice.get('size_bytes')} bytes"
            channels = choice.get("channels")
            on = "" if channels is None else f" on {channels} channels"
            yield f"nccl_view/choices/{where}", f"{choice.get('algorithm')}/{choice.get('protocol')}{on}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()
