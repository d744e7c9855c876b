"""What single NVML calls cost on this machine's GPUs: time of the processor and of the clock, the mean over all GPUs.

    python benchmarks/nvml_calls.py

One after the other, and with pauses of a quarter second, after which a GPU has to be asked anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pynvml

NVLINK_TX, NVLINK_RX, POWER = 138, 139, 186
ALL_LINKS = 0xFFFFFFFF


def cost(name: str, call: Callable[[Any], object], gpus: list[Any], rounds: int, gap: float) -> str:
    """One line of the table."""
    processor = clock = 0.0
    for _ in range(rounds):
        for gpu in gpus:
            began, started = time.thread_time(), time.perf_counter()
            try:
                call(gpu)
            except pynvml.NVMLError as error:
                return f"{name:40s} {error}"
            processor += time.thread_time() - began
            clock += time.perf_counter() - started
        time.sleep(gap)
    each = rounds * len(gpus)
    return f"{name:40s} cpu {1e3 * processor / each:.3f} ms wall {1e3 * clock / each:.3f} ms"


def main() -> None:
    pynvml.nvmlInit()
    gpus = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    calls: tuple[tuple[str, Callable[[Any], object]], ...] = (
        ("util", pynvml.nvmlDeviceGetUtilizationRates),
        ("power", pynvml.nvmlDeviceGetPowerUsage),
        ("fields 138,139", lambda gpu: pynvml.nvmlDeviceGetFieldValues(gpu, [NVLINK_TX, NVLINK_RX])),
        ("field 138", lambda gpu: pynvml.nvmlDeviceGetFieldValues(gpu, [NVLINK_TX])),
        (
            "fields 138,139 scoped",
            lambda gpu: pynvml.nvmlDeviceGetFieldValues(gpu, [(NVLINK_TX, ALL_LINKS), (NVLINK_RX, ALL_LINKS)]),
        ),
        ("power field 186", lambda gpu: pynvml.nvmlDeviceGetFieldValues(gpu, [POWER])),
        ("clock", lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM)),
        ("procs", pynvml.nvmlDeviceGetComputeRunningProcesses),
    )
    for rounds, gap in ((20, 0.0), (12, 0.25)):
        print(f"gap {gap}")
        for name, call in calls:
            print(cost(name, call, gpus, rounds, gap))


if __name__ == "__main__":
    main()
