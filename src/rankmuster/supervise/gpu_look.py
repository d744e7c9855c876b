"""One look at all GPUs through NVML's child: memory in use and who computes there."""

from __future__ import annotations

from collections.abc import Mapping, MutableSet

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.nvml_session import NvmlSession
from rankmuster.supervise.gpus import GpuUse


class GpuLook:
    """Callable as `gpus.Look`. `helpers`: gets the child's pid while it runs: it is not the group's."""

    def __init__(self, helpers: MutableSet[int]) -> None:
        self._helpers = helpers
        self._absent = False

    def __call__(self, seconds: float) -> Mapping[int, GpuUse] | None:
        """GPUs that did not answer in time are left out. None where NVML cannot be used; then it is not tried again."""
        if self._absent:
            return None
        deadline = Deadline.after(seconds)
        found: dict[int, GpuUse] = {}
        try:
            session = NvmlSession(seconds=seconds + 1.0, mode="processes")
        except OSError:
            return None
        self._helpers.add(session.pid)
        with session:
            while not deadline.passed:
                lines = session.lines(deadline)
                for line in lines:
                    if line.get("kind") == "unusable":
                        self._absent = bool(line.get("absent"))
                        return None
                    if line.get("kind") == "processes":
                        used, pids = line.get("used_mib"), line.get("pids")
                        found[int(line["gpu"])] = GpuUse(
                            used if isinstance(used, int) else None,
                            frozenset(pids) if isinstance(pids, list) else frozenset(),
                        )
                if session.ended or any(line.get("kind") == "end" for line in lines):
                    break
        if session.gone:
            self._helpers.discard(session.pid)
        return found
