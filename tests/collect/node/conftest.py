"""NVML's library made of a few lines of C, and a folder for what is taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from node_bench import Bench

from fake_nvml import compiled


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "taken")


@pytest.fixture(scope="session")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(nvml_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts the fake driver where the loader of a child finds it: `nvml("lost", first_pid=7000)`."""

    def place(mode: str = "normal", first_pid: int = 4242) -> None:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_folder))
        monkeypatch.setenv("FAKE_NVML", mode)
        monkeypatch.setenv("FAKE_NVML_PID", str(first_pid))

    return place
