"""torch's own collectives: for gloo, and for NCCL where its library cannot be called directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankmuster.bench.builtin import lazy
from rankmuster.bench.builtin.group import NO_PLACE, ROOT, next_and_previous
from rankmuster.bench.builtin.layout import Layout
from rankmuster.model.benchmark import Operation

ALWAYS_IN_PLACE = frozenset({Operation.ALL_REDUCE, Operation.REDUCE, Operation.BROADCAST})


class TorchGroup:
    """See `Group`. The process group must have been initialised; calls go to the current stream."""

    def __init__(self, backend: str, device: Any) -> None:
        dist = lazy.dist()

        self.backend = backend
        self.device = device
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def placement(self, operation: Operation, in_place: bool) -> bool:
        if in_place and operation in NO_PLACE:
            raise ValueError(f"{operation.value} has no in-place form")
        return in_place or operation in ALWAYS_IN_PLACE

    def ready(self, operation: Operation, send: Any, recv: Any, layout: Layout, dtype: str) -> Callable[[], None]:  # noqa: ARG002  # the tensors say it
        dist = lazy.dist()

        if operation is Operation.ALL_REDUCE:
            return lambda: _done(dist.all_reduce(recv))
        if operation is Operation.REDUCE:
            return lambda: _done(dist.reduce(recv, ROOT))
        if operation is Operation.BROADCAST:
            return lambda: _done(dist.broadcast(recv, ROOT))
        if operation is Operation.ALL_GATHER:
            return lambda: _done(dist.all_gather_into_tensor(recv, send))
        if operation is Operation.REDUCE_SCATTER:
            return lambda: _done(dist.reduce_scatter_tensor(recv, send))
        if operation is Operation.ALL_TO_ALL:
            return lambda: _done(dist.all_to_all_single(recv, send))
        following, before = next_and_previous(self.rank, self.ranks)

        def exchange() -> None:
            works = dist.batch_isend_irecv(
                [
                    dist.P2POp(dist.isend, send, following),
                    dist.P2POp(dist.irecv, recv, before),
                ]
            )
            for work in works:
                work.wait()

        return exchange

    def barrier(self) -> Callable[[], None]:
        torch = lazy.torch()
        dist = lazy.dist()

        token = torch.zeros(1, dtype=torch.float32, device=self.device)
        return lambda: _done(dist.all_reduce(token))


def _done(work: Any) -> None:
    """A call that was not asked to be asynchronous gives no work; an older torch may give one."""
    if work is not None:
        work.wait()
