"""How many elements an operation of a size moves per rank: nccl-tests' arithmetic, so that sizes mean the same.

`size` of all_gather, reduce_scatter and all_to_all is of all ranks' parts together, each part a whole number of 16-byte
words (nccl-tests rounds down and prints what is left); of the others it is what one rank gives.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.benchmark import Operation

WORD = 16
"""Bytes to which nccl-tests aligns each rank's part (src/all_gather.cu and its neighbours, `-(16/eltSize)`)."""

ELEMENT_BYTES = {
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "int64": 8,
    "half": 2,
    "bfloat16": 2,
    "float": 4,
    "double": 8,
    "f8e4m3": 1,
    "f8e5m2": 1,
}
"""dtypes by nccl-tests' names. uint32 and uint64 are left out: torch cannot compute with them everywhere."""

PARTED = frozenset({Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.ALL_TO_ALL})


@dataclass(frozen=True, slots=True)
class Layout:
    """`count`: what the call takes; `send`, `recv`: elements of a rank's buffers; `size_bytes`: as it is reported."""

    count: int
    send: int
    recv: int
    size_bytes: int

    @property
    def slot(self) -> int:
        """Elements from one operation's place in the buffers to the next one's."""
        return max(self.send, self.recv)


def layout(operation: Operation, size_bytes: int, dtype: str, ranks: int) -> Layout | None:
    """None where the size leaves no element for a rank.

    Raises ValueError for a dtype that is not known.
    """
    element = ELEMENT_BYTES.get(dtype)
    if element is None:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(ELEMENT_BYTES)}")
    count = size_bytes // element
    if operation not in PARTED:
        return Layout(count, count, count, count * element) if count else None
    word = WORD // element
    part = count // ranks // word * word
    whole = part * ranks
    if not part:
        return None
    send = part if operation is Operation.ALL_GATHER else whole
    recv = part if operation is Operation.REDUCE_SCATTER else whole
    return Layout(part, send, recv, whole * element)
