"""What serving engines log of themselves: their own stall alarms, statistics lines, and which path carries their bytes.

Engines: vLLM 0.6-0.33, SGLang 0.4-0.5, TensorRT-LLM. A quiet log is not an idle engine: vLLM drops its statistics line
when nothing was generated, also while requests are stuck.
"""

from __future__ import annotations

import re

from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import Origins, holds, marked
from rankmuster.evidence.log_prefix import decimal, whole
from rankmuster.model.frameworklog import (
    EngineStats,
    EngineWatchdog,
    LineOrigin,
    TrafficHint,
    TrafficPath,
)
from rankmuster.model.plane import Plane

MAX_TEXT = 400
"""Characters kept of a line."""

_ALARMS: tuple[tuple[str, str, re.Pattern[str], bool], ...] = (
    # mark, engine, text (group 1: seconds; group "rank"), weak
    ("broadcast block found in", "vllm", re.compile(r"block found in (\d+) second"), True),
    ("No available block found in", "vllm", re.compile(r"block found in (\d+) second"), True),
    ("RPC call to ", "vllm", re.compile(r"RPC call to \w{1,60} timed out"), False),
    ("[Watchdog]Dumped stack", "vllm", re.compile(r"\[Watchdog\]Dumped stack to"), False),
    ("[FT] No recovery", "vllm", re.compile(r"\[FT\] No recovery within (\d+(?:\.\d+)?)s"), False),
    ("[FT] Engine ", "vllm", re.compile(r"\[FT\] Engine \d{1,6} status -> UNHEALTHY"), False),
    (
        "watchdog_timeout=",
        "sglang",
        re.compile(r"[Ww]atchdog timeout \(self\.watchdog_timeout=(\d+(?:\.\d+)?)"),
        False,
    ),
    ("response from detokenizer", "sglang", re.compile(r"detokenizer for last (\d+(?:\.\d+)?) seconds"), False),
    ("Hang detected", "tensorrt-llm", re.compile(r"Hang detected after (\d+(?:\.\d+)?) seconds"), False),
    ("Hang detected", "tensorrt-llm", re.compile(r"Hang detected on rank (?P<rank>\d{1,9}) in PyExecutor"), False),
)
_STATS = ("Avg prompt throughput: ", "Decode batch", "Prefill batch", "num_scheduled_requests: ")
_VLLM_STATS = re.compile(
    r"Avg prompt throughput: (?P<prompt>[\d.]{1,20}) tokens/s, Avg generation throughput: (?P<gen>[\d.]{1,20}) tokens/s"
    r"(?:.{0,200}?Running: (?P<run>\d{1,18}) reqs)?(?:.{0,200}?(?:Waiting|Pending): (?P<wait>\d{1,18}) reqs)?"
)
_RUNNING = re.compile(r"#running-req: (\d{1,18})")
_QUEUED = re.compile(r"#queue-req: (\d{1,18})")
_GENERATED = re.compile(r"gen throughput \(token/s\): ([\d.]{1,20})")
_INPUT = re.compile(r"input throughput \(token/s\): ([\d.]{1,20})")
_SCHEDULED = re.compile(r"num_scheduled_requests: (\d{1,18})")

_HINTS: tuple[tuple[str, TrafficPath, bool], ...] = (
    # The paths that are switched off stand first: their lines name the path too.
    ("Custom allreduce is disabled", TrafficPath.CUSTOM_ALL_REDUCE, True),
    ("disable_custom_all_reduce=True", TrafficPath.CUSTOM_ALL_REDUCE, True),
    ("enforce_eager=True", TrafficPath.CUDA_GRAPHS, True),
    ("Cuda graph is disabled", TrafficPath.CUDA_GRAPHS, True),
    ("disable_cuda_graph=True", TrafficPath.CUDA_GRAPHS, True),
    ("communicator is not available", TrafficPath.SYMMETRIC_MEMORY, True),
    ("vLLM is using nccl==", TrafficPath.PYNCCL, False),
    ("sglang is using nccl==", TrafficPath.PYNCCL, False),
    ("sgl is using nccl==", TrafficPath.PYNCCL, False),
    (" cuda graph addresses", TrafficPath.CUSTOM_ALL_REDUCE, False),
    ("Using custom all-reduce", TrafficPath.CUSTOM_ALL_REDUCE, False),
    ("Using custom all_reduce", TrafficPath.CUSTOM_ALL_REDUCE, False),
    ("Capturing CUDA graph", TrafficPath.CUDA_GRAPHS, False),
    ("Capturing cudagraphs", TrafficPath.CUDA_GRAPHS, False),
    ("Graph capturing finished", TrafficPath.CUDA_GRAPHS, False),
    ("Capture cuda graph begin", TrafficPath.CUDA_GRAPHS, False),
    ("Capture cuda graph end", TrafficPath.CUDA_GRAPHS, False),
    ("CUDA graph warmup", TrafficPath.CUDA_GRAPHS, False),
    ("cuda graph: True", TrafficPath.CUDA_GRAPHS, False),
    ("symmetric memory", TrafficPath.SYMMETRIC_MEMORY, False),
    ("FlashInfer allreduce", TrafficPath.FLASHINFER, False),
    ("flashinfer all-reduce", TrafficPath.FLASHINFER, False),
    ("lashinfer allreduce", TrafficPath.FLASHINFER, False),
    ("lashInfer All Reduce", TrafficPath.FLASHINFER, False),
    ("DeepEP", TrafficPath.NVSHMEM, False),
    ("deepep", TrafficPath.NVSHMEM, False),
    ("NVSHMEM", TrafficPath.NVSHMEM, False),
    ("NIXL is available", TrafficPath.NIXL, False),
    ("Initializing NIXL", TrafficPath.NIXL, False),
    ("NixlConnector", TrafficPath.NIXL, False),
    ("NIXL INFO", TrafficPath.NIXL, False),
    ("UCX  ", TrafficPath.UCX, False),
    ("MPI size: ", TrafficPath.MPI, False),
    ("[Gloo] Rank ", TrafficPath.GLOO, False),
    ("backend=nccl", TrafficPath.TORCH_DISTRIBUTED, False),
)
_MARKS = (*(alarm[0] for alarm in _ALARMS), *_STATS, *(hint[0] for hint in _HINTS))


def _alarm(origin: LineOrigin, line: str, message: str) -> EngineWatchdog | None:
    for mark, engine, pattern, weak in _ALARMS:
        if mark not in line:
            continue
        m = pattern.search(message)
        if m is None:
            continue
        named = whole(m.groupdict().get("rank"))
        seconds = decimal(m.group(1)) if pattern.groups and named is None else None
        rank = named if named is not None else origin.rank
        return EngineWatchdog(origin, engine, rank, seconds, message.strip()[:MAX_TEXT], weak)
    return None


def _stats(origin: LineOrigin, message: str) -> EngineStats | None:
    vllm = _VLLM_STATS.search(message)
    if vllm:
        return EngineStats(
            origin, "vllm", whole(vllm["run"]), whole(vllm["wait"]), decimal(vllm["gen"]), decimal(vllm["prompt"])
        )
    if message.startswith(("Decode batch", "Prefill batch")):
        running, queued = _RUNNING.search(message), _QUEUED.search(message)
        generated, read_in = _GENERATED.search(message), _INPUT.search(message)
        return EngineStats(
            origin,
            "sglang",
            whole(running.group(1)) if running else None,
            whole(queued.group(1)) if queued else None,
            decimal(generated.group(1)) if generated else None,
            decimal(read_in.group(1)) if read_in else None,
        )
    scheduled = _SCHEDULED.search(message)
    if scheduled:
        return EngineStats(origin, "tensorrt-llm", whole(scheduled.group(1)), None, None, None)
    return None


def _hint(origin: LineOrigin, message: str) -> TrafficHint | None:
    for mark, path, off in _HINTS:
        if mark in message:
            return TrafficHint(origin, path, message.strip()[:MAX_TEXT], off)
    return None


def read(blob: Blob) -> Reading:
    """EngineWatchdog and EngineStats as they come; each TrafficHint once per writer and path."""
    origins = Origins(blob)
    hinted: set[tuple[object, ...]] = set()
    found: list[object] = []
    known = 0
    for number, line in marked(blob, _MARKS):
        if " NCCL INFO " in line:
            continue
        origin, prefix = origins.of(number, line)
        message = prefix.message or line
        said = _alarm(origin, line, message) or _stats(origin, message)
        if said is not None:
            found.append(said)
        hint = _hint(origin, message)
        known += said is not None or hint is not None
        if hint is not None:
            key = (origin.rank, origin.worker, hint.path, hint.off)
            if key not in hinted:
                hinted.add(key)
                found.append(hint)
    return Reading(tuple(found), (), known)


def _recognises(blob: Blob) -> bool:
    return holds(blob, _MARKS)


READER = Reader("engine log", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
