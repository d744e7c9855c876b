"""Sizes for people: in units of 1024, as nccl-tests' options count them, in four digits. Exact: `model.sizes_text`."""

from __future__ import annotations

_UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"))


def size_words(size: int) -> str:
    """16 KiB, 250.5 KiB, 1.75 GiB; 96 B below one KiB."""
    for shift, unit in _UNITS:
        if size >= 1 << shift:
            return f"{size / (1 << shift):.4g} {unit}"
    return f"{size} B"
