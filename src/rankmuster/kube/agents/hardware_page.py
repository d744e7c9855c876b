"""The GPUs of this node in the form of a DCGM exporter's page, with the pod of each: for the watch of a sidecar."""

from __future__ import annotations

from pathlib import Path

from rankmuster.collect.deadline import Clock
from rankmuster.kube.agents.server import Answer, trouble


class HardwarePage:
    def __init__(self, dcgm_url: str | None, proc: Path, node: str, clock: Clock) -> None:
        self._url = dcgm_url

    def answer(self, pod: str | None) -> Answer:
        return trouble(503, "not yet")

    def close(self) -> None:
        """Ends what asks NVML."""
