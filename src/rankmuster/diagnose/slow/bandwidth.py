"""Bytes of a collective and its bus bandwidth, as nccl-tests defines them (its doc/PERFORMANCE.md).

The message S is what one rank holds in full: of an all-reduce, broadcast or reduce the tensor, of an all-gather the
output, of a reduce-scatter and an all-to-all the input. Bus bandwidth is S / time x the factor by which the slowest
link's traffic differs from S: 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for
broadcast and reduce. It compares with the hardware's own whatever the number of ranks.
"""

from __future__ import annotations

import math

from rankmuster.diagnose.signatures import Shapes, Signature
from rankmuster.model.collective_names import collective_name

_OF_ONE = ("Byte", "Char", "Bool", "QInt8", "QUInt8")
_OF_TWO = ("Half", "BFloat16", "Short", "UInt16")
_OF_FOUR = ("Float", "Int", "UInt32", "QInt32", "ComplexHalf")
_OF_EIGHT = ("Double", "Long", "UInt64", "ComplexFloat")
BYTES: dict[str, int] = {
    **dict.fromkeys(_OF_ONE, 1),
    **dict.fromkeys(_OF_TWO, 2),
    **dict.fromkeys(_OF_FOUR, 4),
    **dict.fromkeys(_OF_EIGHT, 8),
    "ComplexDouble": 16,
}
"""Bytes of an element by torch's name of the type (c10/core/ScalarType.h); all of Float8 are one."""

_MOST = 1 << 62
"""Bytes beyond which sizes are damage."""

_BY_OUTPUT = ("all_gather",)
_FACTORS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}


def message_bytes(signature: Signature) -> int | None:
    """S in bytes; None where the operation, its sizes or a type is unknown."""
    name = collective_name(signature.op)
    if name not in (*_FACTORS, "broadcast", "reduce"):
        return None
    if name in _BY_OUTPUT:
        return _total(signature.out_sizes, signature.out_dtypes)
    return _total(signature.in_sizes, signature.in_dtypes)


def _total(shapes: Shapes, dtypes: tuple[str, ...]) -> int | None:
    if not shapes or not dtypes or len(dtypes) not in (1, len(shapes)):
        return None
    each = dtypes if len(dtypes) == len(shapes) else dtypes * len(shapes)
    total = 0
    for shape, dtype in zip(shapes, each, strict=True):
        width = 1 if dtype.startswith("Float8") else BYTES.get(dtype)
        if width is None or any(size < 0 for size in shape):
            return None
        total += width * math.prod(shape)
    return total if 0 < total < _MOST else None


LEAST_MS = 1e-6
"""Of a duration: one nanosecond, which is the clocks' resolution. What is shorter is damage, and would divide to
infinity."""


def bus_gb_per_s(op: str, size: int | None, members: int, milliseconds: float) -> float | None:
    """Bus bandwidth in 1e9 bytes per second; None where the factor or a figure is unknown."""
    if size is None or members < 2 or not milliseconds >= LEAST_MS:
        return None
    name = collective_name(op)
    factor = _FACTORS[name] * (members - 1) / members if name in _FACTORS else 1.0
    return size * factor / (milliseconds / 1e3) / 1e9
