"""The device that a rank measures on, and its names: bus id and UUID tell which GPU it is to everybody else."""

from __future__ import annotations

import ctypes
from typing import Any

from rankmuster.bench.builtin import lazy
from rankmuster.bench.builtin.library import mapped

_BUS_TEXT = 20  # cudaDeviceGetPCIBusId wants 13 characters and a NUL


def names(index: int) -> dict[str, str | None]:
    """`model`, `uuid` and `bus_id` (`dddd:bb:dd`) of a CUDA device; None for what this torch and CUDA do not say."""
    torch = lazy.torch()

    properties: Any = torch.cuda.get_device_properties(index)
    uuid = getattr(properties, "uuid", None)
    return {
        "model": str(properties.name),
        "uuid": f"GPU-{uuid}" if uuid is not None else None,
        "bus_id": _from_properties(properties) or _from_runtime(index),
    }


def _from_properties(properties: Any) -> str | None:
    parts = [getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    numbers = [part for part in parts if isinstance(part, int)]
    if len(numbers) < len(parts):
        return None
    domain, bus, device = numbers
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def _from_runtime(index: int) -> str | None:
    for path in mapped(r"^libcudart\.so"):
        text = ctypes.create_string_buffer(_BUS_TEXT)
        try:
            code = ctypes.CDLL(path).cudaDeviceGetPCIBusId(text, ctypes.c_int(_BUS_TEXT), ctypes.c_int(index))
        except (OSError, AttributeError):
            continue
        if code == 0:
            return text.value.decode(errors="replace").lower().partition(".")[0]
    return None
