"""torch, imported where it is used: it takes seconds, is there in ranks only, and its types are of many versions."""

from __future__ import annotations

import importlib
from typing import Any


def torch() -> Any:
    """The module. Raises ImportError where the interpreter has none."""
    return importlib.import_module("torch")


def dist() -> Any:
    """`torch.distributed`."""
    return importlib.import_module("torch.distributed")
