"""NVML's library made of a few lines of C, for tests of whatever asks NVML."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "collect" / "node" / "fake_nvml.c"


def compiled(folder: Path) -> Path:
    """`folder`, with `libnvidia-ml.so.1` in it: for LD_LIBRARY_PATH. What it does is said by FAKE_NVML and its like."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here to make NVML's library")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)], check=True, timeout=60)
    return folder
