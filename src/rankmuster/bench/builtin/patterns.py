"""Values that tell a wrong element: dependent on rank and index, their sums exact in the dtype in whatever order.

An element's key k = hash(index) mod m; rank r gives (k + r) mod m. A copy must have its source's value, a sum that of
all ranks, and both are small whole numbers which the dtype holds exactly, partial sums too. So every right result is
known to the last bit, and a missing, doubled or displaced contribution is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

EXACT = {
    "int8": 127,
    "uint8": 127,
    "int32": 1 << 24,
    "int64": 1 << 24,
    "half": 1 << 11,
    "bfloat16": 1 << 8,
    "float": 1 << 24,
    "double": 1 << 24,
    "f8e4m3": 1 << 4,
    "f8e5m2": 1 << 3,
}
"""The largest n such that 0..n are all exact: 2 to the bits of the significand; more than 2^24 is not needed."""

MOST_KEYS = 251
"""Different values; a prime, so that no power of two of a displacement goes unnoticed."""

POISON = -1
"""What receive buffers hold before: no right result is negative (as uint8 it is 255, which no right result is)."""

HASH_FACTOR = 2_654_435_761  # Knuth's multiplicative hash: 2^32 / golden ratio
HASH_MASK = (1 << 28) - 1  # of the index: the product stays below 2^63
HASH_SHIFT = 13


@dataclass(frozen=True, slots=True)
class Pattern:
    """`modulus`: how many keys; `stride`: every so manyth rank gives something to a sum, the others zeros."""

    modulus: int
    stride: int = 1

    def key(self, index: int) -> int:
        """Which of `modulus` values stands at an element: hashed, so that a shifted buffer is seen."""
        return ((index & HASH_MASK) * HASH_FACTOR >> HASH_SHIFT) % self.modulus

    def values(self, rank: int) -> tuple[int, ...]:
        """By key: what `rank` gives."""
        if rank % self.stride:
            return (0,) * self.modulus
        return tuple((key + rank // self.stride) % self.modulus for key in range(self.modulus))

    def sums(self, ranks: int) -> tuple[int, ...]:
        """By key: what all ranks together give."""
        columns = [self.values(rank) for rank in range(0, ranks, self.stride)]
        return tuple(sum(column[key] for column in columns) for key in range(self.modulus))


def of_copies(dtype: str) -> Pattern:
    """For operations that move values as they are."""
    return Pattern(min(MOST_KEYS, EXACT[dtype] + 1))


def of_sums(dtype: str, ranks: int) -> Pattern:
    """For sums over `ranks`: as many keys as the dtype holds the sum of, and a sum that depends on the key.

    It does unless the number of giving ranks is a multiple of the keys. Where the dtype cannot hold the sum of as many
    ranks, some of them give zeros.
    """
    stride = 1
    while True:
        giving = -(-ranks // stride)
        keys = min(MOST_KEYS, EXACT[dtype] // giving + 1)
        while keys > 1 and giving % keys == 0:
            keys -= 1
        if keys > 1:
            return Pattern(keys, stride)
        stride += 1
