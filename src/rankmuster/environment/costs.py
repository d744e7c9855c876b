"""What evidence costs: measured constants, each with its source. Sizes in bytes, times in seconds."""

from __future__ import annotations

ENTRY_BYTES_BARE = 115
"""Of a dump without stacks: 0.229 MB for 2000 entries (torch 2.13, gloo)."""
ENTRY_BYTES_STACKS = 250
"""Of a dump with Python stacks of about 30 frames: 0.4 to 0.83 MB for 2000 entries at 23 to 39 frames (torch 2.13)."""
ENTRY_SECONDS_BARE = 0.025 / 2000
"""Taking a dump without stacks: 0.015 to 0.025 s for 2000 entries (torch 2.13, two slow cores)."""
ENTRY_SECONDS_STACKS = 1.5 / 2000
"""Taking a dump with stacks: 1.2 to 1.5 s for 2000 entries (same machine); the interpreter lock is held meanwhile."""

RECORDING = "at most 40 µs of the host for each collective, the call itself taken in"
"""30 to 40 µs for an all-reduce of one rank over gloo with the recorder on (torch 2.13): an upper bound."""

ENTRIES_PER_SECOND = 5000
"""The busiest rank of the captures on four H200s enqueued 4840 collectives a second (TP2, back to back). An upper
bound to size a ring by where nothing of the instance itself was recorded."""

INIT_LOG_BYTES = 20_000
"""One process's NCCL log of an init at INFO with INIT,BOOTSTRAP,NET,ENV: 18 to 20 KB (NCCL 2.28.9, four GPUs of one
node, two communicators)."""
CALL_LOG_BYTES = 190
"""One COLL or TUNING line: 190 KB for 1000 lines in the same captures. Calls in CUDA-graph replays write none."""

DUMP_SHARE = 0.5
"""Share of the wait that a dump may take: the rest is for a machine in trouble, which is when dumps are taken."""
WATCHDOG_WAITS = 4
"""The watchdog waits four times TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC for a dump before it goes on (torch source)."""
DUMP_ATTEMPTS = 2
"""With stacks, then without (torch source)."""

ENGINE_STEP_SECONDS = 300
"""vLLM, SGLang and TensorRT-LLM give up after 300 s without a step, each by its own watchdog."""
TORCH_TIMEOUT_SECONDS = 600
"""torch's default time-out of a collective over NCCL."""


def dump_seconds(entries: int, *, stacks: bool) -> float:
    """How long taking a dump of so many entries takes; memory and disk aside."""
    return entries * (ENTRY_SECONDS_STACKS if stacks else ENTRY_SECONDS_BARE)


def dump_bytes(entries: int, *, stacks: bool) -> int:
    """How large the file gets."""
    return entries * (ENTRY_BYTES_STACKS if stacks else ENTRY_BYTES_BARE)


def size_text(count: float) -> str:
    """Bytes for people: `480 KB`, `1.2 MB`."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}" if count / scale < 999.5 else f"{count / scale:.0f} {unit}"
    return f"{count:.0f} bytes"


def seconds_text(seconds: float) -> str:
    """Seconds for people: `0.03 s`, `7.5 s`, `12 min`."""
    if seconds >= 600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
