"""Which GPUs a process may use, by the variables that restrict it, and which one its local rank takes. Pure.

CUDA_VISIBLE_DEVICES: indices, UUIDs or unique beginnings of UUIDs, MIG UUIDs, old `MIG-GPU-uuid/gi/ci`; the list ends
at the first entry that names nothing (CUDA programming guide, "CUDA environment variables"). In a container its indices
count the GPUs that the runtime handed in (NVIDIA_VISIBLE_DEVICES), not the node's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as NVML names it. `index`: NVML's; None where only the UUID is known, and the other way round."""

    index: int | None
    uuid: str | None


def visible(
    environ: Mapping[str, str], gpus: Sequence[Gpu] = (), nodes: tuple[Gpu, ...] | None = None
) -> tuple[Gpu, ...] | None:
    """The GPUs that the process sees, in its own order; None when nothing restricts it, empty when it is not known.

    `nodes`: those whose device files it has, where that is another set than ours, as `device_nodes.handed_in` has it.
    `gpus`: the node's, to give an index its UUID and the reverse. CUDA orders identical GPUs as NVML does, by bus id,
    unless CUDA_DEVICE_ORDER asks for FASTEST_FIRST among different ones: the index is taken as NVML's.
    """
    inside = _of_container(environ.get("NVIDIA_VISIBLE_DEVICES", ""), gpus)
    inside = nodes if inside is None else inside
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return inside
    if inside == () and any(_is_index(part.strip()) for part in setting.split(",")):
        return ()
    return _listed(setting, gpus, inside)


def of_local_rank(local_rank: int | None, seen: tuple[Gpu, ...] | None, gpus: Sequence[Gpu] = ()) -> tuple[Gpu, ...]:
    """The GPU that a local rank takes: its place in the list, the only one there is, or the index itself."""
    if seen is not None and len(seen) == 1:
        return seen
    if local_rank is None:
        return ()
    if seen is not None:
        return (seen[local_rank],) if local_rank < len(seen) else ()
    return (_with_uuid(local_rank, gpus),)


def _of_container(setting: str, gpus: Sequence[Gpu]) -> tuple[Gpu, ...] | None:
    """The GPUs that the container runtime hands in, in the order in which they are numbered in there: by bus id, as
    NVML has them, whatever the order in the list. None: all, or nobody says; empty: their order is not to be known.
    """
    named = list(dict.fromkeys(part.strip() for part in setting.split(",")))
    if not all(entry.startswith(("GPU-", "MIG-")) or _is_index(entry) for entry in named):
        return None  # `all`, `none`, `void`, or not set
    found = [_entry(entry, gpus) for entry in named]
    if len(found) == 1 and not _is_index(named[0]):
        return tuple(gpu for gpu in found if gpu is not None)
    if gpus and len(gpus) <= len(found):
        return tuple(gpus)  # this program is in the same container, or all are handed in: they have one numbering
    ordered = [gpu for gpu in gpus if gpu in found]
    return tuple(ordered) if len(ordered) == len(found) else ()


def _listed(setting: str, gpus: Sequence[Gpu], inside: Sequence[Gpu] | None) -> tuple[Gpu, ...]:
    """`inside`: what indices count from, where a container has numbers of its own."""
    entries = [part.strip() for part in setting.split(",")]
    indices = [int(entry) for entry in entries if _is_index(entry)]
    if inside is not None and any(index >= len(inside) for index in indices):
        inside = None  # there is no such number in a container of so many: the runtime's list is not in force
    found: list[Gpu] = []
    for entry in entries:
        gpu = inside[int(entry)] if inside is not None and _is_index(entry) else _entry(entry, gpus)
        if gpu is None or gpu in found:
            break
        found.append(gpu)
    return tuple(found)


def _is_index(entry: str) -> bool:
    return entry.isascii() and entry.isdigit() and len(entry) <= 4


def _entry(entry: str, gpus: Sequence[Gpu]) -> Gpu | None:
    if _is_index(entry):
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
