"""Launchers' and engines' reports that one of their processes ended: vLLM, SGLang, TensorRT-LLM, TGI, torchrun, Ray,
Slurm, mpirun.

A death by signal is told twice on purpose: as WorkerDeath (who noticed) and as SignalDeath (which signal).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.launcher_deaths import MAX_TEXT, ray_actor, slurm_deaths, torchrun_row
from rankmuster.evidence.log_lines import Origins, holds
from rankmuster.evidence.log_prefix import Prefix, rank_of_worker, signed, whole
from rankmuster.model.frameworklog import LineOrigin, SignalDeath, WorkerDeath
from rankmuster.model.plane import Plane

_MARKS = (
    "died unexpectedly", "exited unexpectedly", " died, exit code: ", "Failed core proc(s):", "crashed with exit code",
    "sigquit from a child", "SIGQUIT received.", "scheduler is dead", "worker died during", "MPI_ABORT was invoked",
    "mpirun noticed that process", "crashed", "failed to start", "shutdown with signal", "(exitcode: ", "exitcode  :",
    "srun: error: ", "A worker died or was killed", "has been marked dead", "Webserver Crashed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Said:
    engine: str
    worker: str
    rank: int | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    host: str | None = None


_Take = Callable[["re.Match[str]", Prefix], _Said]


def _vllm(m: re.Match[str], _: Prefix) -> _Said:
    worker = m["worker"]
    return _Said("vllm", worker, rank_of_worker(worker), None, signed(m["code"]))


_SHAPES: tuple[tuple[re.Pattern[str], _Take], ...] = (
    (re.compile(r"Worker proc (?P<worker>\S{1,100}) died unexpectedly(?: \(exit code: (?P<code>-?\d+)\))?"), _vllm),
    (re.compile(r"Engine core proc (?P<worker>\S{1,100}) died unexpectedly(?P<code>)?"), _vllm),
    (
        re.compile(r"RayWorkerProc rank=\[?(?P<rank>\d{1,9})(?P<more>[\d, ]*)\]? died unexpectedly"),
        lambda m, _: _Said("vllm", "RayWorkerProc", whole(m["rank"]) if not m["more"].strip(" ,") else None),
    ),
    (
        re.compile(r"Worker (?P<worker>\w{1,80}) pid (?P<pid>\d{1,9}) died, exit code: (?P<code>-?\d+)"),
        lambda m, _: _Said("vllm", m["worker"], None, whole(m["pid"]), signed(m["code"])),
    ),
    (re.compile(r"MPClient: engine core exited unexpectedly"), lambda _m, _: _Said("vllm", "EngineCore")),
    (
        re.compile(r"Failed core proc\(s\): \{'(?P<worker>[^'{}]{1,80})': (?P<code>-?\d+)"),
        lambda m, _: _Said("vllm", m["worker"], None, None, signed(m["code"])),
    ),
    (
        re.compile(
            r"Subprocess (?P<worker>\S{1,80})(?: \(pid=(?P<pid>\d{1,9})\))? crashed with exit code (?P<code>-?\d+)"
        ),
        lambda m, _: _Said("sglang", m["worker"], rank_of_worker(m["worker"]), whole(m["pid"]), signed(m["code"])),
    ),
    (re.compile(r"(?:Received sigquit from a child|SIGQUIT received\. )"), lambda _m, _: _Said("sglang", "child")),
    (
        re.compile(r"Rank (?P<rank>\d{1,9}) scheduler is dead"),
        lambda m, _: _Said("sglang", "scheduler", whole(m["rank"])),
    ),
    (re.compile(r"Executor worker died during"), lambda _m, _: _Said("tensorrt-llm", "executor worker")),
    (
        re.compile(r"MPI_ABORT was invoked on rank (?P<rank>\d{1,9}) .{0,80}?with errorcode (?P<code>-?\d+)"),
        lambda m, _: _Said("mpi", f"rank {m['rank']}", whole(m["rank"]), None, signed(m["code"])),
    ),
    (
        re.compile(
            r"process rank (?P<rank>\d{1,9}) with PID (?P<pid>\d{1,9}) on node (?P<node>\S{1,200}) exited on signal "
            r"(?P<signal>\d{1,2})"
        ),
        lambda m, _: _Said(
            "mpi", f"rank {m['rank']}", whole(m["rank"]), whole(m["pid"]), None, whole(m["signal"]), m["node"]
        ),
    ),
    (
        re.compile(r"^Shard (?P<rank>\d{1,6}) (?:crashed|failed to start)"),
        lambda m, _: _Said("tgi", f"shard {m['rank']}", whole(m["rank"])),
    ),
    (
        re.compile(r"Shard process was signaled to shutdown with signal (?P<signal>\d{1,2})"),
        lambda m, p: _Said("tgi", f"shard {p.rank}", p.rank, None, None, whole(m["signal"])),
    ),
    (re.compile(r"^Webserver Crashed"), lambda _m, _: _Said("tgi", "webserver")),
    (
        re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d{1,6}) \(pid: (?P<pid>\d{1,9})\)"),
        lambda m, _: _Said("torchrun", f"local_rank {m['local']}", None, whole(m["pid"]), signed(m["code"])),
    ),
    (
        re.compile(r"A worker died or was killed while executing a task"),
        lambda _m, _: _Said("ray", "worker"),
    ),
    (
        re.compile(r"node with node id: ?\S{1,80} and address: ?(?P<host>[^\s,]{1,200}).{0,200}has been marked dead"),
        lambda m, _: _Said("ray", f"node {m['host']}", host=m["host"]),
    ),
)


def _plain(origin: LineOrigin, prefix: Prefix) -> list[object]:
    for pattern, take in _SHAPES:
        m = pattern.search(prefix.message)
        if m is None:
            continue
        said = take(m, prefix)
        written = prefix.message.strip()[:MAX_TEXT]
        found: list[object] = [
            WorkerDeath(origin, said.engine, said.worker, said.rank, said.pid, said.exit_code, written, said.host)
        ]
        signal = said.signal
        if signal is None and said.exit_code is not None and said.exit_code < 0:
            signal = -said.exit_code
        if signal is not None:
            found.append(SignalDeath(origin, signal, said.rank, said.pid, said.exit_code, written))
        return found
    return []


def _once(found: list[object]) -> tuple[object, ...]:
    """Without torchrun's short reports of processes whose table row stands in the same log, and without repeats."""
    rows = {d.pid for d in found if isinstance(d, WorkerDeath) and d.engine == "torchrun" and d.rank is not None}
    told: set[tuple[object, ...]] = set()
    kept: list[object] = []
    for said in found:
        if isinstance(said, WorkerDeath):
            if said.engine == "torchrun" and said.rank is None and said.pid in rows:
                continue
            key: tuple[object, ...] = (said.engine, said.worker, said.rank, said.pid, said.exit_code, said.host)
        elif isinstance(said, SignalDeath):
            if said.victim_rank is None and said.victim_pid is not None and said.victim_pid in rows:
                continue
            key = ("signal", said.signal, said.victim_rank, said.victim_pid, said.text[:80])
        else:
            key = ("other", id(said))
        if key not in told:
            told.add(key)
            kept.append(said)
    return tuple(kept)


def read(blob: Blob) -> Reading:
    """WorkerDeaths and the SignalDeaths that they tell, each once."""
    present = [mark for mark in _MARKS if mark.encode() in blob.data]
    actors = b"actor died" in blob.data or b"actor is dead" in blob.data
    if not present and not actors:
        return Reading()
    origins = Origins(blob)
    # Under torchrun a Slurm task is a node's agent, not a rank.
    one_rank_a_task = b"torch.distributed.elastic" not in blob.data and b"local_rank" not in blob.data
    lines = list(text.lines(blob.data))
    found: list[object] = []
    known = 0
    for index, (number, line) in enumerate(lines):
        if not (any(mark in line for mark in present) or (actors and "actor died unexpectedly" in line)):
            continue
        if "exitcode  :" in line:
            said = torchrun_row(lines, index, origins)
        elif "srun: error: " in line:
            said = slurm_deaths(origins.of(number, line)[0], line, one_rank_a_task)
        elif "actor died unexpectedly" in line:
            said = ray_actor(lines, index, origins)
        else:
            said = _plain(*origins.of(number, line))
        known += bool(said)
        found.extend(said)
    return Reading(_once(found), (), known)


def _recognises(blob: Blob) -> bool:
    return holds(blob, (*_MARKS, "actor died unexpectedly"))


READER = Reader("worker deaths", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
