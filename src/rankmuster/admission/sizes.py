"""Sizes in words."""

from __future__ import annotations


def size_text(size: int) -> str:
    """`64 KiB`, `1.5 MiB`, `8 B`."""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.4g} {unit}"


def span_text(sizes: tuple[int, ...] | list[int]) -> str:
    """`1 MiB`, or `1 MiB to 256 MiB`."""
    low, high = min(sizes), max(sizes)
    return size_text(low) if low == high else f"{size_text(low)} to {size_text(high)}"
