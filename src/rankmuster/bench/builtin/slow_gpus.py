"""GPUs that are slow by themselves, by the work that each did alone before the collectives (`probe`)."""

from __future__ import annotations

from rankmuster.bench.builtin.heard import Heard

PROBE_SLOW = 1.15
"""A GPU that needs so many times as long for work of its own as the fastest of its model here. Healthy GPUs of one node
differ by a few percent (Azure's health checks warn at 3.5 % and fail at 7 %); another process's kernels on
it cost a third or more."""


def slow_gpus(heard: Heard) -> list[str]:
    """GPUs whose own work takes long, in words: then a low bandwidth is the GPU's, not the links'."""
    found = []
    for key, name in (("matmul_us", "matrix multiplications"), ("copy_us", "copies in its memory")):
        by_model: dict[str, dict[int, float]] = {}
        for number, rank in heard.ranks.items():
            value = rank.probe.get(key)
            if isinstance(value, (int, float)) and value > 0:
                by_model.setdefault(str(rank.device.get("model")), {})[number] = float(value)
        for times in by_model.values():
            fastest = min(times.values())
            for number, value in sorted(times.items()):
                if value > PROBE_SLOW * fastest:
                    device = heard.ranks[number].device.get("device")
                    found.append(
                        f"the GPU of rank {number} (device {device}) is slow by itself: {name} take {value:.0f} us, "
                        f"{value / fastest:.2f} times the fastest GPU's"
                    )
    return found
