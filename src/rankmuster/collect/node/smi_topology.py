"""`nvidia-smi topo`: how each pair of GPUs and NICs is connected, and whether peers may reach one another."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.children import find_program, run
from rankmuster.collect.node.smi_samples import names_a_gpu
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink

QUESTIONS = (("topo", "-m"), ("topo", "-p2p", "r"), ("topo", "-p2p", "w"), ("topo", "-p2p", "n"))
"""Paths; peer-to-peer reads, writes, and over NVLink."""

CALL_SECONDS = 6.0
"""Of one question: with persistence mode off the driver takes seconds to load."""
MAX_BYTES = 1 << 20
"""Of one answer: a matrix of eight GPUs and their NICs has some KiB."""


@dataclass(frozen=True, slots=True)
class SmiTopology:
    """Plane topology, `topology/topo.txt`. Each answer stands below a line with the time, the host and the command."""

    name: str = "topology"
    budget_seconds: float = 12.0
    program: str = "nvidia-smi"

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """Asks one question after the other and stops at the first that hangs: the next would hang too."""
        program = find_program(self.program)
        if program is None:
            return Outcome(Ending.NOTHING, "no nvidia-smi here; the GPUs' own facts come through NVML")
        host = scene.target.host if scene.target is not None else scene.machine.hostname
        text = b""
        failed: list[str] = []
        for question in QUESTIONS:
            asked_at = scene.now()
            ran = run((program, *question), deadline.within(CALL_SECONDS), max_bytes=MAX_BYTES)
            if not ran.well:
                failed.append(f"nvidia-smi {' '.join(question)} {ran.story}")
                if names_a_gpu(ran.output) and len(failed) == 1:
                    sink.put("topology/nvidia-smi.txt", ran.output, look_time=asked_at, host=host, text=True)
            elif ran.output.strip():
                stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(asked_at))
                text += f"{stamp} {host} nvidia-smi {' '.join(question)}\n".encode() + ran.output.rstrip() + b"\n\n"
                sink.put("topology/topo.txt", text, look_time=asked_at, host=host, text=True, replace=True)
            if ran.timed_out or deadline.passed:
                break
        if failed:
            ending = Ending.PARTIAL if sink.pieces else Ending.FAILED
            return Outcome(ending, "; ".join(failed))
        return Outcome(Ending.DONE, f"{len(QUESTIONS)} answers of nvidia-smi topo")
