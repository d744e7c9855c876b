"""GPUs through NVML: what each is made of, and a series of samples from the first moment to the end of the collection.

The counters of NVLink bytes tell whether anything moves, with CUDA graphs too; NVML itself may hang after a GPU fault,
so everything is asked in a child process (`nvml_child`) that is left behind where it does not answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.gpu_record import GpuRecord
from rankmuster.collect.node.nvml_session import NvmlSession
from rankmuster.collect.node.smi_samples import SmiSamples
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink
from rankmuster.model.ranks_text import ranks_text

INTERVAL_SECONDS = 0.5
"""Between two samples of a GPU. NVML's utilisation is itself a mean over up to a second; one round of calls takes a few
milliseconds and touches no stream."""

LEAST_SECONDS = 5.0
"""Besides two looks: `diagnose` believes a picture of spinning and idle GPUs after 4 s and four samples."""

TICK_SECONDS = 0.25
REWRITE_SECONDS = 1.0
REWRITE_SHARE = 0.05
"""The series is rewritten each second, and later after each twentieth of its time: its length must not add up."""

START_SECONDS = 4.0
"""Below this a NVML that has not started says nothing of the driver: loading it takes seconds where persistence mode is
off."""

END_SECONDS = 0.7
"""Kept back from the deadline to write the last samples and to end the child."""

COUNTERS = "gpu-counters.jsonl"
TOPOLOGY = "topology/gpus.json"


@dataclass(frozen=True, slots=True)
class Gpus:
    """Plane hardware, and the GPUs' part of topology. `interval`: seconds between samples."""

    name: str = "hardware"
    budget_seconds: float = 3600.0
    interval: float = INTERVAL_SECONDS
    start_seconds: float = START_SECONDS

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """Samples for two looks at least and then until the board says that all others have ended."""
        host = scene.target.host if scene.target is not None else scene.machine.hostname
        record = GpuRecord(host)
        begun = scene.clock()
        least = begun + max(2 * scene.wishes.look_seconds, LEAST_SECONDS)
        until = deadline.before(END_SECONDS)
        written = begun
        end: str | None = None
        try:
            session = NvmlSession(seconds=deadline.remaining() + 1.0, interval=self.interval)
        except OSError as error:
            return Outcome(Ending.FAILED, f"the process that asks NVML could not be started ({error.strerror})")
        try:
            while not until.passed and not session.ended and record.unusable is None:
                for line in session.lines(until.within(TICK_SECONDS)):
                    record.take(line)
                now = scene.clock()
                if now - written >= max(REWRITE_SECONDS, REWRITE_SHARE * (now - begun)):
                    self._write(record, scene, sink)
                    written = now
                if now >= least and scene.board.ending(0):
                    break
        finally:
            end = session.close()
        if record.unusable is not None:
            return self._without(record, scene, sink, deadline)
        self._write(record, scene, sink)
        return self._outcome(record, scene, end, scene.clock() - begun)

    def _write(self, record: GpuRecord, scene: Scene, sink: Sink) -> None:
        counters = record.counters(scene.target)
        if counters:
            sink.put(COUNTERS, counters, look_time=scene.now(), host=record.host, replace=True)
        if record.count:
            sink.put(TOPOLOGY, record.topology(), look_time=record.taken_at, host=record.host, replace=True)

    def _without(self, record: GpuRecord, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """NVML cannot be used; nvidia-smi may have its own."""
        assert record.unusable is not None
        reason = str(record.unusable.get("reason"))
        absent = bool(record.unusable.get("absent"))
        fallback = SmiSamples().collect(record.host, scene, sink, deadline)
        if fallback is not None:
            return Outcome(fallback.ending, f"NVML cannot be used ({reason}); {fallback.note}", fallback.warnings)
        if absent:
            return Outcome(Ending.NOTHING, f"no NVIDIA driver here ({reason})")
        return Outcome(Ending.FAILED, f"NVML cannot be used: {reason}")

    def _outcome(self, record: GpuRecord, scene: Scene, end: str | None, waited: float) -> Outcome:
        if record.count == 0:
            return Outcome(Ending.NOTHING, "the NVIDIA driver is loaded, and shows no GPU to this process")
        if record.count is None and end is None and waited < self.start_seconds:
            return Outcome(
                Ending.TIMED_OUT,
                f"NVML was asked to start, and {waited:.1f} s were all it had: too few to tell anything by; give it a "
                "longer --deadline",
            )
        if record.count is None:
            how = f"its process {end}" if end else "it did not answer"
            return Outcome(
                Ending.FAILED,
                f"NVML was asked to start and gave no answer: {how}. After a GPU fault (Xid 79, 119) the driver "
                "blocks; see the kernel log",
            )
        note = f"{record.count} GPU(s), {record.samples} samples"
        warnings = []
        hanging, errors = record.hanging(), record.errors()
        if hanging:
            told = "; ".join(f"GPU {gpu} has not answered {what}" for gpu, what in sorted(hanging.items()))
            warnings.append(f"{told}: the driver blocks, as after a GPU fault; the kernel log may have the Xid")
        if errors:
            told = "; ".join(f"GPU {gpu}: {what}" for gpu, what in sorted(errors.items()))
            warnings.append(f"NVML reports an error in place of answers: {told}")
        if end is not None:
            warnings.append(f"the process that asks NVML {end}; what it had said before is kept")
        warnings += self._of_pids(record, scene)
        if not record.samples:
            return Outcome(Ending.PARTIAL if errors else Ending.FAILED, f"{note}: no GPU gave one", tuple(warnings))
        whole = not hanging and not errors and end is None and len(record.complete) == record.count
        return Outcome(Ending.DONE if whole else Ending.PARTIAL, note, tuple(warnings))

    @staticmethod
    def _of_pids(record: GpuRecord, scene: Scene) -> list[str]:
        if scene.target is None or not scene.target.workers:
            return []
        if not record.lists_processes():
            return ["NVML lists no process on any GPU here (another container's are hidden): foreign work is not seen"]
        pids = record.translation(scene.target)
        if pids.translates and pids.complete:
            return []
        unknown = [
            worker.rank for worker in scene.target.workers if worker.host_pid is None and worker.rank is not None
        ]
        who = f" of {ranks_text(sorted(unknown))}" if unknown else ""
        return [
            f"the host's pids{who} cannot be told here (another pid namespace, no host /proc): processes are left out "
            "of the samples, and foreign work is not seen; run in the host's pid namespace (hostPID, docker --pid=host)"
        ]
