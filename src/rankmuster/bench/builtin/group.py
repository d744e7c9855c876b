"""What one rank can do together with the others: the interface of the backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rankmuster.bench.builtin.layout import Layout
from rankmuster.model.benchmark import Operation

ROOT = 0
"""Root of broadcast and reduce, nccl-tests' default."""

NO_PLACE = frozenset({Operation.ALL_TO_ALL, Operation.SEND_RECV})
"""Operations without an in-place form: each rank would overwrite what it has yet to send."""


class Group(Protocol):
    """A communicator over all ranks. `backend`: its name for the results; `device`: torch's, of the buffers."""

    backend: str
    rank: int
    ranks: int
    device: Any

    def placement(self, operation: Operation, in_place: bool) -> bool:
        """Whether it will really be in place: torch's own all_reduce, reduce and broadcast always are.

        Raises ValueError where the operation has no such form at all.
        """
        ...

    def ready(self, operation: Operation, send: Any, recv: Any, layout: Layout, dtype: str) -> Callable[[], None]:
        """A call that enqueues the operation on these tensors (one-dimensional, contiguous), ready to be repeated."""
        ...

    def barrier(self) -> Callable[[], None]:
        """A call that holds every rank's stream until all have come to it."""
        ...


def next_and_previous(rank: int, ranks: int) -> tuple[int, int]:
    """send_recv's peers, as nccl-tests': everybody sends to the next rank and receives from the one before."""
    return (rank + 1) % ranks, (rank - 1) % ranks
