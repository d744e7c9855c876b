"""NCCL called directly, on one stream (see `library` for why)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from rankmuster.bench.builtin import lazy
from rankmuster.bench.builtin.group import NO_PLACE, ROOT, next_and_previous
from rankmuster.bench.builtin.layout import Layout
from rankmuster.bench.builtin.library import DATA_TYPES, SUM, Library
from rankmuster.model.benchmark import Operation


class NcclGroup:
    """See `Group`. `stream`: torch's, on which everything is enqueued, captured graphs too."""

    backend = "nccl"

    def __init__(self, library: Library, unique_id: bytes, rank: int, ranks: int, device: Any, stream: Any) -> None:
        """The CUDA device must be the current one. Raises NcclFailed."""
        self.rank, self.ranks, self.device = rank, ranks, device
        self._nccl = library
        self._comm = library.communicator(unique_id, rank, ranks)
        self._stream = ctypes.c_void_p(stream.cuda_stream)

    def placement(self, operation: Operation, in_place: bool) -> bool:
        if in_place and operation in NO_PLACE:
            raise ValueError(f"{operation.value} has no in-place form")
        return in_place

    def ready(self, operation: Operation, send: Any, recv: Any, layout: Layout, dtype: str) -> Callable[[], None]:
        source, target = ctypes.c_void_p(send.data_ptr()), ctypes.c_void_p(recv.data_ptr())
        count, kind = ctypes.c_size_t(layout.count), ctypes.c_int(DATA_TYPES[dtype])
        total, root, end = ctypes.c_int(SUM), ctypes.c_int(ROOT), (self._comm, self._stream)
        if operation is Operation.ALL_REDUCE:
            return self._nccl.bound("ncclAllReduce", source, target, count, kind, total, *end)
        if operation is Operation.ALL_GATHER:
            return self._nccl.bound("ncclAllGather", source, target, count, kind, *end)
        if operation is Operation.REDUCE_SCATTER:
            return self._nccl.bound("ncclReduceScatter", source, target, count, kind, total, *end)
        if operation is Operation.BROADCAST:
            return self._nccl.bound("ncclBroadcast", source, target, count, kind, root, *end)
        if operation is Operation.REDUCE:
            return self._nccl.bound("ncclReduce", source, target, count, kind, total, root, *end)
        if operation is Operation.SEND_RECV:
            following, before = next_and_previous(self.rank, self.ranks)
            return self._grouped(
                [
                    self._nccl.bound("ncclSend", source, count, kind, ctypes.c_int(following), *end),
                    self._nccl.bound("ncclRecv", target, count, kind, ctypes.c_int(before), *end),
                ]
            )
        if self._nccl.has("ncclAlltoAll"):  # since 2.28; one call instead of a pair per rank
            return self._nccl.bound("ncclAlltoAll", source, target, count, kind, *end)
        return self._grouped(self._exchanges(send, recv, layout, count, kind))

    def barrier(self) -> Callable[[], None]:
        torch = lazy.torch()

        self._token = torch.zeros(1, dtype=torch.float32, device=self.device)
        one = Layout(1, 1, 1, 4)
        return self.ready(Operation.ALL_REDUCE, self._token, self._token, one, "float")

    def _exchanges(
        self, send: Any, recv: Any, layout: Layout, count: ctypes.c_size_t, kind: ctypes.c_int
    ) -> list[Callable[[], None]]:
        step, calls = layout.count * send.element_size(), []
        for peer in range(self.ranks):
            source = ctypes.c_void_p(send.data_ptr() + peer * step)
            target = ctypes.c_void_p(recv.data_ptr() + peer * step)
            end = (ctypes.c_int(peer), self._comm, self._stream)
            calls += [
                self._nccl.bound("ncclSend", source, count, kind, *end),
                self._nccl.bound("ncclRecv", target, count, kind, *end),
            ]
        return calls

    def _grouped(self, calls: list[Callable[[], None]]) -> Callable[[], None]:
        begin, finish = self._nccl.bound("ncclGroupStart"), self._nccl.bound("ncclGroupEnd")

        def together() -> None:
            begin()
            for call in calls:
                call()
            finish()

        return together
