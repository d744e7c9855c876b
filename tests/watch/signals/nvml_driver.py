"""The fake driver library of the collectors' tests, with a mode that can be changed while a child runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fake_nvml import compiled
from rankmuster.collect.deadline import Deadline
from rankmuster.watch.signals.nvml import NvmlSignal
from rankmuster.watch.signals.signal import Said


@pytest.fixture(scope="session")
def driver_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("driver"))


class Driver:
    """`mode`: what the library does from now on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.signals: list[NvmlSignal] = []

    def mode(self, mode: str) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(mode)
        fresh.replace(self._file)

    def signal(self, mode: str = "normal", **options: object) -> NvmlSignal:
        self.mode(mode)
        signal = NvmlSignal("node-a", **options)  # type: ignore[arg-type]
        self.signals.append(signal)
        return signal

    def until(self, signal: NvmlSignal, wanted: Callable[[list[Said]], bool], seconds: float = 20.0) -> list[Said]:
        """Polls until one poll says what is wanted; that poll."""
        until = time.monotonic() + seconds
        said: list[Said] = []
        while time.monotonic() < until:
            said = signal.poll(Deadline.after(5.0))
            if wanted(said):
                return said
            time.sleep(0.02)
        raise AssertionError(f"never said; the last poll: {said}")


@pytest.fixture
def driver(driver_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver_folder))
    monkeypatch.setenv("FAKE_NVML_FILE", str(tmp_path / "mode"))
    monkeypatch.setenv("FAKE_NVML_PID", "7000")
    made = Driver(tmp_path / "mode")
    yield made
    for signal in made.signals:
        signal.close()
