"""Which GPUs a process may use, by the variables that restrict it, and which one its local rank takes. Pure.

CUDA_VISIBLE_DEVICES: indices, UUIDs or unique beginnings of UUIDs, MIG UUIDs, old `MIG-GPU-uuid/gi/ci`; the list ends
at the first entry that names nothing (CUDA programming guide, "CUDA environment variables").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as NVML names it. `index`: NVML's; None where only the UUID is known, and the other way round."""

    index: int | None
    uuid: str | None


def visible(environ: Mapping[str, str], gpus: Sequence[Gpu] = ()) -> tuple[Gpu, ...] | None:
    """The GPUs that the process sees, in its own order; None when nothing restricts it.

    `gpus`: the node's, to give an index its UUID and the reverse. CUDA orders identical GPUs as NVML does, by bus id,
    unless CUDA_DEVICE_ORDER asks for FASTEST_FIRST among different ones: the index is taken as NVML's.
    """
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        inside = environ.get("NVIDIA_VISIBLE_DEVICES", "")
        # The container runtime's: a list that holds more than `all`, `none` or `void` names the GPUs that are there.
        return _listed(inside, gpus) if inside.startswith(("GPU-", "MIG-")) else None
    return _listed(setting, gpus)


def of_local_rank(local_rank: int | None, seen: tuple[Gpu, ...] | None, gpus: Sequence[Gpu] = ()) -> tuple[Gpu, ...]:
    """The GPU that a local rank takes: its place in the list, the only one there is, or the index itself."""
    if seen is not None and len(seen) == 1:
        return seen
    if local_rank is None:
        return ()
    if seen is not None:
        return (seen[local_rank],) if local_rank < len(seen) else ()
    return (_with_uuid(local_rank, gpus),)


def _listed(setting: str, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    found: list[Gpu] = []
    for entry in (part.strip() for part in setting.split(",")):
        gpu = _entry(entry, gpus)
        if gpu is None or gpu in found:
            break
        found.append(gpu)
    return tuple(found)


def _entry(entry: str, gpus: Sequence[Gpu]) -> Gpu | None:
    if entry.isascii() and entry.isdigit() and len(entry) <= 4:
        return _with_uuid(int(entry), gpus)
    if not entry.startswith(("GPU-", "MIG-")) or len(entry) <= 4:
        return None
    parent = entry.removeprefix("MIG-").partition("/")[0] if entry.startswith("MIG-GPU-") else entry
    matching = [gpu for gpu in gpus if gpu.uuid is not None and gpu.uuid.startswith(parent)]
    if len(matching) != 1:
        return Gpu(None, entry)
    return Gpu(matching[0].index, entry if entry.startswith("MIG-") else matching[0].uuid)


def _with_uuid(index: int, gpus: Sequence[Gpu]) -> Gpu:
    return next((gpu for gpu in gpus if gpu.index == index), Gpu(index, None))
