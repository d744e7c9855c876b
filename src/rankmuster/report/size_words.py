"""Sizes for people: in units of 1024, as nccl-tests' options count them, exact or with one decimal."""

from __future__ import annotations

_UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"))


def size_words(size: int) -> str:
    """16 KiB, 250.5 KiB, 1.75 GiB; 96 B below one KiB."""
    for shift, unit in _UNITS:
        if size >= 1 << shift:
            value = size / (1 << shift)
            digits = 0 if value == int(value) else 1 if value >= 10 else 2
            return f"{value:.{digits}f} {unit}"
    return f"{size} B"
