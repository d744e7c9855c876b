"""A PCIe link as /sys, lspci and nvidia-smi write it -> `Link`. Shared by live reading and captured text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rankmuster.model.node_path import Link
from rankmuster.model.unknown import Unknown

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
"""GT/s of one lane -> generation (PCI Express Base Specification; linux drivers/pci/pci.h, PCIE_SPEED2STR)."""

WIDTHS = (1, 2, 4, 8, 12, 16, 32)
"""Lanes that the specification knows; /sys writes 0 or 255 where a device has no link."""

NO_LINK = Link(0, 0, 0, 0)
"""Of a device that has no PCI Express link, as the virtual ones of virtual machines."""

_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) ?GT/s")
_WIDTH = re.compile(r"x?(\d{1,3})x?")


def generation(said: str | None, where: str) -> int | Unknown:
    """`32.0 GT/s PCIe`, `32GT/s` -> 5."""
    match = _SPEED.match(said.strip()) if said else None
    found = GENERATIONS.get(float(match.group(1))) if match else None
    return found if found is not None else _unknown(said, where)


def width(said: str | None, where: str) -> int | Unknown:
    """`16`, `x16`, `16x` -> 16."""
    match = _WIDTH.fullmatch(said.strip()) if said else None
    lanes = int(match.group(1)) if match else 0
    return lanes if lanes in WIDTHS else _unknown(said, where)


def least(values: Iterable[int | Unknown]) -> int | Unknown:
    """What both ends can do: the least of those known; Unknown where none is."""
    seen = list(values)
    known = [value for value in seen if not isinstance(value, Unknown)]
    return min(known) if known else seen[0]


def _unknown(said: str | None, where: str) -> Unknown:
    return Unknown(f"{where} is not there" if said is None else f"{where} says {said.strip()[:40]!r}")


def generation_number(said: str, where: str) -> int | Unknown:
    """`5` as NVML and nvidia-smi number it."""
    number = int(said) if said.isascii() and said.isdecimal() and len(said) < 3 else 0
    return number if number in GENERATIONS.values() else _unknown(said, where)
