"""`nvidia-smi` in NVML's place: where its own library works and ours is not found or is of another version."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.children import Ran, find_program, run
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink
from rankmuster.evidence.pci import bus_id

CALL_SECONDS = 6.0
"""One call of nvidia-smi; 0.1 to 2 s where the driver is well."""

FACTS = (
    "index,name,uuid,pci.bus_id,driver_version,vbios_version,pcie.link.gen.current,pcie.link.width.current,"
    "pcie.link.gen.max,pcie.link.width.max,ecc.errors.uncorrected.volatile.total"
)
SAMPLE = "index,uuid,pci.bus_id,utilization.gpu,utilization.memory,power.draw,clocks.sm,temperature.gpu"
_KEYS = ("sm_util_percent", "memory_util_percent", "power_w", "sm_clock_mhz", "temperature_c")


@dataclass(frozen=True, slots=True)
class SmiSamples:
    """Facts once (`topology/gpus.csv`) and two samples or more; there are no byte counters in it."""

    program: str = "nvidia-smi"

    def collect(self, host: str, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome | None:
        """None: there is no nvidia-smi, or it cannot do it either and says nothing worth keeping."""
        program = find_program(self.program)
        if program is None:
            return None
        asked = self._ask(program, FACTS, deadline, header=True)
        if not asked.well:
            if names_a_gpu(asked.output):
                sink.put("topology/nvidia-smi.txt", asked.output, look_time=scene.now(), host=host, text=True)
                return Outcome(Ending.PARTIAL, f"nvidia-smi {asked.story}; what it said is kept")
            return None
        sink.put("topology/gpus.csv", asked.output, look_time=scene.now(), host=host, text=True)
        rows: list[dict[str, Any]] = []
        while not deadline.passed:
            sampled = self._ask(program, SAMPLE, deadline)
            if not sampled.well:
                break
            rows += _rows(sampled.output, host, scene.now())
            data = "".join(json.dumps(row) + "\n" for row in rows).encode()
            sink.put("gpu-counters.jsonl", data, look_time=scene.now(), host=host, replace=True)
            if scene.board.ending(min(1.0, deadline.remaining())):
                break
        note = f"nvidia-smi gave facts and {len(rows)} samples, without the byte counters of links"
        return Outcome(Ending.PARTIAL, note)

    def _ask(self, program: str, query: str, deadline: Deadline, *, header: bool = False) -> Ran:
        form = "csv" if header else "csv,noheader,nounits"
        return run((program, f"--query-gpu={query}", f"--format={form}"), deadline.within(CALL_SECONDS))


def names_a_gpu(output: bytes) -> bool:
    """Whether nvidia-smi complains of one GPU, which is evidence. "No devices were found", or a library of another
    version, may only be this program's view (a sidecar without GPUs), while the instance runs."""
    return b"GPU is lost" in output or b"Unable to determine the device handle for" in output


def _rows(output: bytes, host: str, time: float) -> Iterator[dict[str, Any]]:
    """The samples of one answer; a value that the GPU does not have ("[N/A]") is left out."""
    for cells in csv.reader(io.StringIO(output.decode("utf-8", errors="replace")), skipinitialspace=True):
        if len(cells) != len(_KEYS) + 3 or not cells[0].isdigit():
            continue
        row: dict[str, Any] = {"time": round(time, 4), "host": host, "gpu": int(cells[0]), "uuid": cells[1]}
        row["bus_id"] = bus_id(cells[2]) or cells[2]
        for key, cell in zip(_KEYS, cells[3:], strict=True):
            try:
                row[key] = float(cell)
            except ValueError:
                continue
        yield row
