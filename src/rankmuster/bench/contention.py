"""Whether something else worked on the GPUs while a benchmark ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contention:
    """`foreign`: (NVML index of the GPU, host pid) of others' processes; `busy`: GPUs that worked while no rank did.

    `unknown`: why it cannot be told, empty where it can.
    """

    foreign: tuple[tuple[int, int], ...] = ()
    busy: tuple[tuple[int, float], ...] = ()
    unknown: str = ""

    @property
    def found(self) -> bool:
        return bool(self.foreign or self.busy)

    @property
    def reason(self) -> str:
        """In words; empty where nothing was found and nothing is unknown."""
        raise NotImplementedError


class ContentionWatch:
    """Use as a context manager around any benchmark: nccl-tests' or the built-in one."""

    def __init__(self, gpus: tuple[str, ...] | None = None) -> None:
        """`gpus`: UUIDs or bus ids that the benchmark uses; None: all of the node."""
        raise NotImplementedError

    def own(self, pids: tuple[int, ...]) -> None:
        """Tells the processes of the benchmark itself, which are not foreign."""

    def poll(self) -> None:
        """Takes what has been sampled since; cheap, to be called now and then while the benchmark runs."""

    def finish(self) -> Contention:
        """Samples once more, after the benchmark's processes have ended, and concludes."""
        raise NotImplementedError
