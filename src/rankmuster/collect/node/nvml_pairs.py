"""Every pair of GPUs: peer-to-peer status by capability, and how near they are to each other on PCIe.

Runs inside the child process only, a thread per GPU. A GPU that hangs would hang whoever asks about it: each thread
asks about those first that have answered everything else, and comes to the others at the very end.

Lines: `{"kind": "pair", "gpu": 0, "other": 1, "p2p": {"r": 0, "w": 0, "n": 0, "a": 5, "p": 0}, "ancestor": 30}`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from rankmuster.collect.node.nvml_reads import Gpu

CAPABILITIES = {"r": 0, "w": 1, "n": 2, "a": 3, "p": 4}
"""`nvidia-smi topo -p2p`'s letters -> nvmlGpuP2PCapsIndex_t: read, write, NVLink, atomics, PCI (nvml.h)."""

PATIENCE_SECONDS = 1.0
"""How long a thread waits for GPUs that have not answered before it asks about them all the same: facts of a healthy
GPU take about 0.1 s, and a GPU after an Xid answers nothing for 6 to 45 s."""
_LOOK_SECONDS = 0.05


class Pairs:
    """What a thread of the child does with its GPU in mode "path": the facts, then its row of each matrix."""

    def __init__(self, gpus: Sequence[Gpu], open_gpu: Callable[[Gpu], bool], emit: Callable[..., None]) -> None:
        self._gpus = gpus
        self._open = open_gpu
        self._emit = emit
        self._answered = {gpu.index: threading.Event() for gpu in gpus}

    def ask(self, gpu: Gpu, _: float, ends_at: float) -> None:
        """Everything about one GPU; what it does not answer is not said."""
        opened = self._open(gpu)
        if opened:
            for part in gpu.facts():
                self._emit(kind="gpu", gpu=gpu.index, **part)
            error = {"error": gpu.error} if gpu.error else {}
            self._emit(kind="gpu", gpu=gpu.index, complete=True, **error)
        self._answered[gpu.index].set()
        if opened:
            self._row(gpu, min(ends_at, time.monotonic() + PATIENCE_SECONDS))

    def _row(self, gpu: Gpu, patient_until: float) -> None:
        left = [other for other in self._gpus if other is not gpu]
        while left:
            ready = [other for other in left if self._answered[other.index].is_set()]
            if not ready and time.monotonic() < patient_until:
                time.sleep(_LOOK_SECONDS)
                continue
            for other in ready or left[:1]:
                left.remove(other)
                if other.handle is not None:
                    self._pair(gpu, other)

    def _pair(self, gpu: Gpu, other: Gpu) -> None:
        status = {
            letter: value
            for letter, index in CAPABILITIES.items()
            if isinstance(value := gpu.of_device("GetP2PStatus", other.handle, index), int)
        }
        ancestor = gpu.of_device("GetTopologyCommonAncestor", other.handle)
        near = {"ancestor": ancestor} if isinstance(ancestor, int) else {}
        self._emit(kind="pair", gpu=gpu.index, other=other.index, p2p=status, **near)
