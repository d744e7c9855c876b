"""Makes a rank's group and its timer: NCCL directly, torch's own over NCCL, or gloo."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rankmuster.bench.builtin import lazy
from rankmuster.bench.builtin.clocks import CudaTimer, Timer, WallTimer
from rankmuster.bench.builtin.control import Control, Place
from rankmuster.bench.builtin.device import names
from rankmuster.bench.builtin.frames import Speaker
from rankmuster.bench.builtin.group import Group
from rankmuster.bench.builtin.group_nccl import NcclGroup
from rankmuster.bench.builtin.group_torch import TorchGroup
from rankmuster.bench.builtin.library import NoLibrary, load
from rankmuster.bench.builtin.orders import Backend
from rankmuster.bench.builtin.probe import probe


@dataclass(frozen=True, slots=True)
class Ready:
    """`context`: to be inside of while measuring; `graphs`: whether CUDA graphs can be captured."""

    group: Group
    timer: Timer
    context: AbstractContextManager[Any]
    graphs: bool
    probe: Callable[[], dict[str, float]] | None = None
    notes: list[str] = field(default_factory=list)


def set_up(backend: Backend, control: Control, place: Place, store: Any, speaker: Speaker, seconds: float) -> Ready:
    """Connects this rank to the others. Raises what the backend raises, and ValueError for too few GPUs."""
    torch = lazy.torch()

    if backend is Backend.GLOO:
        _join("gloo", control, store, seconds, None)
        gloo = TorchGroup(Backend.GLOO.value, torch.device("cpu"))
        speaker.say("device", device=place.local_rank or 0, backend=Backend.GLOO.value, nccl=None)
        return Ready(gloo, WallTimer(gloo.barrier()), contextlib.nullcontext(), graphs=False)
    index = _device(place)
    torch.cuda.set_device(index)
    device = torch.device("cuda", index)
    stream = torch.cuda.Stream(device)
    speaker.say("at", cell=-1, doing="making the communicator")
    notes: list[str] = []
    group: Group
    version = None
    if backend is Backend.NCCL:
        try:
            library = load()
        except NoLibrary as error:
            # The same answer on every rank: they have the same torch, or the version check of NCCL itself says no.
            notes.append(f"{error}; torch's own collectives were measured")
            backend = Backend.TORCH_NCCL
        else:
            version = library.version()
            unique = control.share(library.unique_id().hex() if place.rank == 0 else None)
            group = NcclGroup(library, bytes.fromhex(unique), place.rank, place.ranks, device, stream)
    if backend is Backend.TORCH_NCCL:
        _join("nccl", control, store, seconds, device)
        group = TorchGroup(backend.value, device)
        version = ".".join(str(part) for part in torch.cuda.nccl.version())
    speaker.say("device", device=index, backend=backend.value, nccl=version, cuda=torch.version.cuda, **names(index))
    context = torch.cuda.stream(stream)
    with context:
        barrier = group.barrier()
        barrier()
        stream.synchronize()
    return Ready(
        group,
        CudaTimer(stream, barrier),
        torch.cuda.stream(stream),
        graphs=True,
        probe=lambda: probe(stream, device),
        notes=notes,
    )


def _device(place: Place) -> int:
    """Rank k of a node takes GPU k; where a launcher shows each rank one GPU only, that one.

    Raises ValueError where there are fewer GPUs than ranks: two ranks on one GPU measure nothing.
    """
    torch = lazy.torch()

    count = torch.cuda.device_count()
    local = place.local_rank if place.local_rank is not None else place.rank % max(count, 1)
    if count == 1 and local and os.environ.get("CUDA_VISIBLE_DEVICES"):
        return 0
    if local >= count:
        raise ValueError(f"this rank is number {local} of its node, which shows {count} GPUs")
    return local


def _join(backend: str, control: Control, store: Any, seconds: float, device: Any) -> None:
    dist = lazy.dist()

    options = {} if device is None else {"device_id": device}
    dist.init_process_group(
        backend,
        store=dist.PrefixStore("group", store),
        rank=control.rank,
        world_size=control.ranks,
        timeout=timedelta(seconds=seconds),
        **options,
    )
