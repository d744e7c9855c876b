"""The buffers of one operation and size: filled with known values, and checked element by element on the device."""

from __future__ import annotations

from typing import Any

from rankmuster.bench.builtin import lazy, patterns
from rankmuster.bench.builtin.group import ROOT
from rankmuster.bench.builtin.layout import Layout
from rankmuster.model.benchmark import Operation

CHUNK = 1 << 24
"""Elements looked at in one go: bounds the working memory to some hundred MB, whatever the size."""

SUMMED = frozenset({Operation.ALL_REDUCE, Operation.REDUCE, Operation.REDUCE_SCATTER})


def torch_dtype(name: str) -> Any:
    """torch's dtype for nccl-tests' name of it."""
    torch = lazy.torch()

    names = {
        "half": "float16",
        "float": "float32",
        "double": "float64",
        "f8e4m3": "float8_e4m3fn",
        "f8e5m2": "float8_e5m2",
    }
    return getattr(torch, names.get(name, name))


class Arena:
    """Send and receive buffers large enough for the largest size of a step.

    Operations of smaller sizes walk through them, as nccl-tests' do, so that they do not find their data in the cache.
    """

    def __init__(self, elements: int, dtype: str, device: Any) -> None:
        torch = lazy.torch()

        self.dtype, self.elements = dtype, elements
        self.send = torch.zeros(elements, dtype=torch_dtype(dtype), device=device)
        self.recv = torch.zeros(elements, dtype=torch_dtype(dtype), device=device)


class Slots:
    """The places of one operation and size in an arena; correctness is about the first."""

    def __init__(
        self, arena: Arena, operation: Operation, layout: Layout, rank: int, ranks: int, in_place: bool
    ) -> None:
        self._arena, self._operation, self._layout = arena, operation, layout
        self._rank, self._ranks, self._in_place = rank, ranks, in_place
        self.count = max(arena.elements // layout.slot, 1)
        summed = operation in SUMMED
        self._pattern = patterns.of_sums(arena.dtype, ranks) if summed else patterns.of_copies(arena.dtype)

    def tensors(self, place: int) -> tuple[Any, Any]:
        """(send, recv) of the operation at a place."""
        layout, start = self._layout, place * self._layout.slot
        if not self._in_place:
            return (
                self._arena.send[start : start + layout.send],
                self._arena.recv[start : start + layout.recv],
            )
        whole = self._arena.recv[start : start + layout.slot]
        own = whole[self._rank * layout.count : (self._rank + 1) * layout.count]
        if self._operation is Operation.ALL_GATHER:
            return own, whole
        if self._operation is Operation.REDUCE_SCATTER:
            return whole, own
        return whole, whole

    def fill(self) -> None:
        """Known values to send at the first place, and nothing that could pass for a result where one will be."""
        send, _ = self.tensors(0)
        self._arena.recv[: self._layout.slot].fill_(_poison(self._arena.dtype))
        if not self._in_place or self._operation is not Operation.BROADCAST or self._rank == ROOT:
            self._write(send, self._pattern.values(self._rank))

    def poison(self) -> None:
        """Wipes the results of the first place, where that does not wipe what is to be sent."""
        if not self._in_place:
            self.tensors(0)[1].fill_(_poison(self._arena.dtype))

    def wrong(self) -> int:
        """How many elements of this rank's result at the first place are not what they must be."""
        torch = lazy.torch()

        if self._operation is Operation.REDUCE and self._rank != ROOT:
            return 0
        recv = self.tensors(0)[1]
        exact = torch.int64 if not recv.dtype.is_floating_point else torch.float32
        table = torch.tensor(self._expected(), dtype=exact, device=recv.device)
        found = 0
        for start in range(0, self._layout.recv, CHUNK):
            end = min(start + CHUNK, self._layout.recv)
            place = torch.arange(start, end, dtype=torch.int64, device=recv.device)
            source, index = self._origin(place)
            wanted = table[source, self._keys(index)]
            found += int((recv[start:end].to(exact) != wanted).sum())
        return found

    def _expected(self) -> list[tuple[int, ...]]:
        """By source and key; a sum has one source."""
        if self._operation in SUMMED:
            return [self._pattern.sums(self._ranks)]
        return [self._pattern.values(source) for source in range(self._ranks)]

    def _origin(self, place: Any) -> tuple[Any, Any]:
        """Which source's element stands at a place of the result, and its index there."""
        torch = lazy.torch()

        part, operation, zero = self._layout.count, self._operation, torch.zeros_like(place)
        if operation is Operation.REDUCE_SCATTER:
            return zero, place + self._rank * part
        if operation is Operation.ALL_GATHER:
            return place // part, place % part
        if operation is Operation.ALL_TO_ALL:
            return place // part, place % part + self._rank * part
        if operation is Operation.SEND_RECV:
            return zero + (self._rank - 1) % self._ranks, place
        return zero + (ROOT if operation is Operation.BROADCAST else 0), place

    def _keys(self, index: Any) -> Any:
        """`Pattern.key` of many."""
        return ((index & patterns.HASH_MASK) * patterns.HASH_FACTOR >> patterns.HASH_SHIFT) % self._pattern.modulus

    def _write(self, tensor: Any, values: tuple[int, ...]) -> None:
        torch = lazy.torch()

        table = torch.tensor(values, dtype=torch.float32, device=tensor.device)
        for start in range(0, tensor.numel(), CHUNK):
            end = min(start + CHUNK, tensor.numel())
            keys = self._keys(torch.arange(start, end, dtype=torch.int64, device=tensor.device))
            tensor[start:end].copy_(table[keys].to(tensor.dtype))


def _poison(dtype: str) -> int:
    return 255 if dtype == "uint8" else patterns.POISON
