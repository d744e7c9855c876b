"""A fixed piece of work for one GPU by itself: tells a slow GPU, or one that others use, from a slow link.

Means over some tens of milliseconds, back to back: GPUs are shared between processes in slices of a few milliseconds,
so that a single short kernel may meet no slice of another's, and their mean meets its share of them.
"""

from __future__ import annotations

from typing import Any

from rankmuster.bench.builtin import lazy

SIDE = 4096
"""Of the square bfloat16 matrices: 2 x 4096^3 = 0.14 TFLOP, some 0.2 ms on an H200; 100 MB in all."""

COPIED = 256 << 20
"""Bytes copied on the device, 5 times an H200's cache."""

ROUNDS = 200  # 40 ms of multiplications, 25 ms of copies on an H200
WARMUP = 100  # 20 ms: an idle GPU's clock needs some to rise


def probe(stream: Any, device: Any) -> dict[str, float]:
    """Mean microseconds of one multiplication (`matmul_us`) and one copy (`copy_us`); empty where memory is short."""
    torch = lazy.torch()

    try:
        left = torch.ones(SIDE, SIDE, dtype=torch.bfloat16, device=device)
        right, product = torch.ones_like(left), torch.empty_like(left)
        source = torch.zeros(COPIED, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
    except torch.cuda.OutOfMemoryError:
        return {}
    return {
        "matmul_us": _mean(stream, lambda: torch.matmul(left, right, out=product)),
        "copy_us": _mean(stream, lambda: target.copy_(source)),
    }


def _mean(stream: Any, work: Any) -> float:
    torch = lazy.torch()

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(WARMUP):
        work()
    begin.record(stream)
    for _ in range(ROUNDS):
        work()
    end.record(stream)
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1000 / ROUNDS
