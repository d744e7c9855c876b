"""NVML's library made of a few lines of C (that of the collectors' tests), and nothing of this machine's NVML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fake_nvml import compiled


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(nvml_library: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Four GPUs at buses 9a..9d: `nvml("block")`, `nvml(p2p="r4")`."""

    def place(mode: str = "normal", p2p: str = "") -> None:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library))
        monkeypatch.setenv("FAKE_NVML", mode)
        monkeypatch.setenv("FAKE_NVML_P2P", p2p)

    return place
