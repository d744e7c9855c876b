"""What a process says of its own end: out of memory, CUDA errors, fatal signals.

Sources of the texts: torch, CUDA runtime (codes of driver_types.h), NCCL's `Cuda failure`, CPython's faulthandler,
glibc, abseil, UCX, Open MPI, shells, Slurm's step daemon, Ray.
"""

from __future__ import annotations

import re

from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import Origins, holds, marked
from rankmuster.evidence.log_prefix import Prefix, whole
from rankmuster.model.frameworklog import CudaError, LineOrigin, OutOfMemory, SignalDeath
from rankmuster.model.plane import Plane

MAX_TEXT = 600
"""Characters kept of a line; torch's own out-of-memory text takes about 500."""

SIGNALS = {
    "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9, "SIGSEGV": 11, "SIGTERM": 15,
    "Illegal instruction": 4, "Aborted": 6, "Bus error": 7, "Floating point exception": 8, "Killed": 9,
    "Segmentation fault": 11, "Segfault": 11, "Terminated": 15,
}  # fmt: skip
"""Linux numbers of signals by name and by strsignal(3)'s and faulthandler's words."""

CUDA_CODES = {
    "invalid argument": 1, "driver version is insufficient": 35, "OS call failed or operation not supported": 304,
    "peer mapping resources exhausted": 711, "initialization error": 3, "out of memory": 2, "driver shutting down": 4,
    "all CUDA-capable devices are busy or unavailable": 46, "no CUDA-capable device is detected": 100,
    "invalid device ordinal": 101, "uncorrectable ECC error encountered": 214,
    "uncorrectable NVLink error detected": 220, "an illegal memory access was encountered": 700,
    "the launch timed out and was terminated": 702, "device-side assert triggered": 710, "hardware stack error": 714,
    "an illegal instruction was encountered": 715, "misaligned address": 716,
    "operation not supported on global/shared address space": 717, "invalid program counter": 718,
    "unspecified launch failure": 719, "operation not permitted": 800, "system not yet initialized": 802,
    "system has unsupported display driver / cuda driver combination": 803, "unknown error": 999,
}  # fmt: skip
"""cudaError numbers by cudaGetErrorString's words (CUDA 11 to 13)."""

_MARKS = (
    "CUDA out of memory",
    "OutOfMemoryError",
    "CUDA error",
    "CUDA driver error",
    "Cuda failure",
    "CUDA failure",
    "cudaGetDeviceCount",
    "DefaultCPUAllocator",
    "std::bad_alloc",
    "Cannot allocate memory",
    "oom_kill event",
    "oom-kill event",
    "running low on memory",
    "Fatal Python error",
    "Caught signal ",
    "Segmentation fault",
    "Segfault encountered",
    "received at time=",
    "Bus error",
    "core dumped",
    "Killed",
    "received by PID",
    "terminated with signal",
    "closing signal SIG",
    "exited on signal",
)
_CUDA_OOM = re.compile(
    r"CUDA out of memory\. |^torch(?:\.cuda)?\.OutOfMemoryError: |CUDA (?:driver )?error: out of memory"
    r"|(?:^|: )CUDA out of memory"
)
_GPU = re.compile(r"GPU (\d{1,4})\b")
_HOST_OOM = re.compile(
    r"DefaultCPUAllocator: (?:can't|not enough)|std::bad_alloc|\[Errno 12\] Cannot allocate memory|oom[-_]kill event|"
    r"running low on memory|^MemoryError"
)
_CUDA = re.compile(
    r"CUDA error: (?P<said>[^\n]{1,300})|CUDA driver error: (?P<driver>[^\n]{1,300})|"
    r"Cuda failure (?P<number>\d{1,4})? ?'(?P<quoted>[^'\n]{1,200})'|"
    r"CUDA failure [\w./]{1,80}:\d{1,6} '(?P<test>[^'\n]{1,200})'|"  # nccl-tests
    r"cudaGetDeviceCount\(\).{0,300}?Error (?P<code>\d{1,4}): (?P<text>[^(\n]{1,200})"
)
_FATAL = re.compile(r"Fatal Python error: (Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point)")
_OWN = re.compile(
    r"Caught signal (?P<caught>\d{1,2}) |\*\*\* (?P<absl>SIG[A-Z]{2,8}) received at time=|"
    r"(?P<torch>Segfault) encountered|Signal: [A-Z][a-z ]{2,30}\((?P<mpi>\d{1,2})\)"
)
_TOLD = re.compile(
    r"Signal (?P<number>\d{1,2}) \(SIG[A-Z]{2,8}\) received by PID (?P<pid>\d{1,9})|"
    r"[Ss]ending process (?P<sent>\d{1,9}) closing signal (?P<closing>SIG[A-Z]{2,8})|"
    r"process (?P<process>\d{1,6}) terminated with signal (?P<name>SIG[A-Z]{2,8})|"
    r"process rank (?P<rank>\d{1,9}) with PID (?P<mpid>\d{1,9}) on node \S{1,200} exited on signal (?P<mpi>\d{1,2})"
)
_SHELL = re.compile(
    r"^(?:[^\s:]{1,200}: (?:line \d{1,9}: )? ?(?P<pid>\d{1,9}) )? *"
    r"(?P<what>Killed|Segmentation fault|Aborted|Bus error|Illegal instruction)(?: +\(core dumped\))?(?:$|\s{2,})"
)


def _memory(origin: LineOrigin, message: str) -> OutOfMemory | None:
    if _CUDA_OOM.search(message):
        gpu = _GPU.search(message)
        return OutOfMemory(origin, "cuda", whole(gpu.group(1)) if gpu else None, message.strip()[:MAX_TEXT])
    if _HOST_OOM.search(message):
        return OutOfMemory(origin, "host", None, message.strip()[:MAX_TEXT])
    return None


def _cuda(origin: LineOrigin, message: str) -> CudaError | None:
    m = _CUDA.search(message)
    if m is None:
        return None
    said = next(g for g in (m["said"], m["driver"], m["quoted"], m["test"], m["text"]) if g is not None).strip()
    code = whole(m["number"] or m["code"])
    if code is None:
        for words, number in CUDA_CODES.items():
            if words.lower() in said.lower():
                code = number
                break
    return CudaError(origin, said[:MAX_TEXT], code)


def _signal(origin: LineOrigin, message: str) -> SignalDeath | None:
    fatal, own, told, shell = (p.search(message) for p in (_FATAL, _OWN, _TOLD, _SHELL))
    said = message.strip()[:MAX_TEXT]
    if fatal:
        words = fatal.group(1)
        number = SIGNALS.get(words, 8)
        return SignalDeath(origin, number, origin.rank, origin.pid, None, said)
    if own:
        number = whole(own["caught"] or own["mpi"]) or SIGNALS.get(own["absl"] or own["torch"] or "", 0)
        return SignalDeath(origin, number, origin.rank, origin.pid, None, said) if number else None
    if told:
        number = whole(told["number"] or told["mpi"]) or SIGNALS.get(told["closing"] or told["name"] or "", 0)
        pid = whole(told["pid"] or told["sent"] or told["mpid"])
        return SignalDeath(origin, number, whole(told["rank"]), pid, None, said) if number else None
    if shell:
        return SignalDeath(origin, SIGNALS[shell["what"]], None, whole(shell["pid"]), None, said)
    return None


def _handled(prefix: Prefix) -> bool:
    return prefix.level in ("I", "D") or (prefix.level == "W" and "closing signal" not in prefix.message)


def read(blob: Blob) -> Reading:
    """OutOfMemory, CudaError and SignalDeath of a log, each distinct one once per writer."""
    origins = Origins(blob)
    told: set[tuple[object, ...]] = set()
    found: list[object] = []
    known = 0
    for number, line in marked(blob, _MARKS):
        if line.startswith(("frame #", "  File ", "    ")) or " NCCL INFO " in line:
            continue
        origin, prefix = origins.of(number, line)
        if _handled(prefix):
            continue
        message = prefix.message
        memory = _memory(origin, message)
        for said in (memory, None if memory else _cuda(origin, message), _signal(origin, message)):
            if said is None:
                continue
            known += 1
            if isinstance(said, OutOfMemory):
                key: tuple[object, ...] = ("memory", said.device, said.gpu)
            elif isinstance(said, CudaError):
                key = ("cuda", said.code if said.code is not None else said.text)
            else:
                key = ("signal", said.signal, said.victim_pid, said.victim_rank)
            key = (origin.rank, origin.worker, *key)
            if key not in told:
                told.add(key)
                found.append(said)
    return Reading(tuple(found), (), known)


def _recognises(blob: Blob) -> bool:
    return holds(blob, _MARKS)


READER = Reader("crash log", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
