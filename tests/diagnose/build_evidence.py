"""Evidence of small jobs in the formats that collectors write: facts, pages, samples, RAS replies, logs.

Every builder returns a `Blob`, so that a test reads its evidence through the same readers as a bundle on disk.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.verdict import Verdict

T0 = 1_795_986_400.0
HOST = "192.0.2.2"
SPIN, IDLE, MOVE = (100.0, 0.0), (0.0, 0.0), (60.0, 40_000.0)
"""(SM utilisation in percent, KiB/s over the links)."""


def verdict_of(blobs: Iterable[Blob]) -> Verdict:
    """What `diagnose` says of these files."""
    return diagnose(gather(blobs)).verdict


def culprits(verdict: Verdict) -> list[int]:
    """Ranks that the verdict convicts."""
    return sorted(s.rank for s in verdict.suspects if s.role.value == "culprit" and s.rank is not None)


def said(verdict: Verdict) -> str:
    """Everything the verdict states, in one text."""
    return "\n".join([verdict.summary or "", *(finding.statement for finding in verdict.findings)])


def pid(rank: int) -> int:
    """The process of a rank in all builders."""
    return 5000 + rank


def instance(
    world: int = 4,
    exits: Mapping[int, tuple[int, float | None]] | None = None,
    hosts: Sequence[str] | None = None,
    last_look: float = T0 + 20,
    pids: bool = True,
    name: str = "llm-0",
) -> Blob:
    """`instance.json`; `exits`: rank -> (exit code, time or None); `hosts`: one per rank."""
    ended = exits or {}
    processes = [
        {
            "rank": rank,
            "pid": pid(rank) if pids else None,
            "host": hosts[rank] if hosts else HOST,
            "gpu": rank if not hosts else sum(h == hosts[rank] for h in hosts[:rank]),
            "exit_code": ended[rank][0] if rank in ended else None,
            "exited_at": ended[rank][1] if rank in ended else None,
        }
        for rank in range(world)
    ]
    facts = {"instance": name, "world_size": world, "last_look": last_look, "processes": processes, "environment": {}}
    return Blob("instance.json", json.dumps(facts).encode())


def vllm_page(
    at: float,
    tokens: float,
    running: float = 8,
    waiting: float = 0,
    cache: float | None = None,
    engines: Mapping[str, tuple[float, float]] | None = None,
    asleep: bool = False,
) -> Blob:
    """A vLLM page; `engines`: data-parallel index -> (running, tokens) instead of the single engine."""
    lines = []
    for key, (load, total) in (engines or {"0": (running, tokens)}).items():
        label = f'{{engine="{key}",model_name="m"}}'
        lines += [
            f"vllm:num_requests_running{label} {load}",
            f"vllm:num_requests_waiting{label} {waiting}",
            f"vllm:generation_tokens_total{label} {total}",
        ]
        if cache is not None:
            lines.append(f"vllm:kv_cache_usage_perc{label} {cache}")
        if asleep:
            lines.append(f'vllm:engine_sleep_state{{engine="{key}",sleep_state="weights_offloaded"}} 1.0')
    return Blob(f"engine/{at:.3f}.prom", ("\n".join(lines) + "\n").encode())


def sglang_old_page(at: float, tokens: float, running: float = 4, usage: float | None = None) -> Blob:
    """A page of SGLang before 0.5.8, whose token totals move when a request ends."""
    lines = [
        f'sglang:num_running_reqs{{model_name="m"}} {running}',
        'sglang:num_queue_reqs{model_name="m"} 0.0',
        f'sglang:generation_tokens_total{{model_name="m"}} {tokens}',
    ]
    if usage is not None:
        lines.append(f'sglang:token_usage{{model_name="m"}} {usage}')
    return Blob(f"engine/{at:.3f}.prom", ("\n".join(lines) + "\n").encode())


def steady_pages(
    start: float, seconds: float, per_second: float = 50.0, first: float = 1000.0, gap: float = 1.0
) -> list[Blob]:
    """vLLM pages of a busy engine."""
    count = int(seconds / gap) + 1
    return [vllm_page(start + i * gap, first + per_second * gap * i) for i in range(count)]


def flat_pages(start: float, seconds: float, tokens: float, running: float = 8, gap: float = 1.0) -> list[Blob]:
    """vLLM pages on which nothing moves."""
    return [vllm_page(start + i * gap, tokens, running) for i in range(int(seconds / gap) + 1)]


def samples(
    phases: Sequence[tuple[float, Mapping[int, tuple[float, float]]]],
    start: float = T0,
    gap: float = 1.0,
    pids: Mapping[int, Sequence[int]] | None = None,
    list_pids: bool = True,
    counters: bool = True,
    kind: str = "nvlink",
    host: str = HOST,
) -> Blob:
    """`gpu-counters.jsonl`: phases of (seconds, rank -> (SM percent, KiB/s)) one after the other."""
    total: dict[int, float] = {}
    rows = []
    at = start
    for seconds, behaviour in phases:
        for _ in range(int(seconds / gap)):
            for rank, (sm, rate) in sorted(behaviour.items()):
                total[rank] = total.get(rank, 1e6) + rate * gap
                row: dict[str, object] = {"time": at + 0.01 * rank, "host": host, "gpu": rank, "sm_util_percent": sm}
                if counters:
                    row |= {f"{kind}_tx_kib": round(total[rank] / 2), f"{kind}_rx_kib": round(total[rank] / 2)}
                if list_pids:
                    row["pids"] = list(pids[rank]) if pids and rank in pids else [pid(rank)]
                rows.append(json.dumps(row))
            at += gap
    return Blob("gpu-counters.jsonl", ("\n".join(rows) + "\n").encode())


@dataclass(frozen=True)
class Comm:
    """One communicator of a RAS reply: global ranks in order of local rank, and launched operations per rank."""

    members: tuple[int, ...]
    counts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # operation -> global rank -> count
    missing: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()
    nocomm: tuple[int, ...] = ()  # answered without this communicator
    hash: int = 0xE2EA29289B106D20


def even(members: Sequence[int], count: int, **behind: int) -> dict[str, dict[int, int]]:
    """AllReduce and AllGather counts that are equal, but for `r2=600`: rank 2's AllReduce count."""
    own = {int(name[1:]): value for name, value in behind.items()}
    return {
        "AllReduce": {r: own.get(r, count) for r in members},
        "AllGather": {r: own.get(r, count) // 4 for r in members},
    }


def _host(hosts: Sequence[str] | None, rank: int) -> str:
    return hosts[rank] if hosts else HOST


def ras_json(
    at: float, comms: Sequence[Comm], node: str = "0", hosts: Sequence[str] | None = None, timeouts: int = 0
) -> Blob:
    """A VERBOSE STATUS reply in JSON (NCCL 2.28.7 and later)."""
    communicators = []
    for comm in comms:
        local = {rank: index for index, rank in enumerate(comm.members)}
        gone = (*comm.missing, *comm.dead, *comm.nocomm)

        def entry(rank: int, numbers: Mapping[int, int] = local) -> dict[str, object]:
            place = {"host": _host(hosts, rank), "pid": pid(rank), "cuda_dev": rank, "nvml_dev": rank}
            return {"rank": numbers[rank], **place}

        ranks = []
        for rank in comm.members:
            if rank in gone:
                continue
            status = {
                "init_state": 0,
                "async_error": 0,
                "finalize_called": False,
                "destroy_flag": False,
                "abort_flag": False,
            }
            launched = dict.fromkeys(("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"), 0)
            launched |= {op: counts[rank] for op, counts in comm.counts.items() if rank in counts}
            ranks.append(entry(rank) | {"status": status, "collective_counts": launched})
        missing = [
            entry(rank) | {"status": {"unresponsive": rank not in comm.nocomm, "considered_dead": rank in comm.dead}}
            for rank in gone
        ]
        communicators.append(
            {
                "hash": f"{comm.hash:#x}",
                "size": len(comm.members),
                "ranks_count": len(ranks),
                "missing_ranks_count": len(gone),
                "ranks": ranks,
                "missing_ranks": missing,
            }
        )
    reply = {
        "nccl_version": "2.28.9",
        "cuda_runtime_version": 13000,
        "cuda_driver_version": 13000,
        "timestamp": clock.strftime("%Y-%m-%d %H:%M:%S", clock.gmtime(at)),
        "communicators_count": len(communicators),
        "communicators": communicators,
        "ras": {"collection_time_sec": 0.0, "timeouts_count": timeouts},
    }
    return Blob(f"ras/{at:.3f}-{node}.json", json.dumps(reply, indent=2).encode())


def ras_text(at: float, comm: Comm, node: str = "0", hosts: Sequence[str] | None = None, timeout: bool = False) -> Blob:
    """A VERBOSE STATUS reply as text: outliers by name, everybody else as one camp."""
    size, gone = len(comm.members), (*comm.missing, *comm.dead)
    local = {rank: index for index, rank in enumerate(comm.members)}
    differing = {op: c for op, c in comm.counts.items() if len({v for r, v in c.items() if r not in gone}) > 1}
    errors = "INCOMPLETE" if gone else ("MISMATCH" if differing else "OK")
    if gone and differing:
        errors = "INCOMPLETE,MISMATCH"
    there = size - len(gone)
    nodes = len(set(hosts)) if hosts else 1
    lines = ["NCCL version 2.28.9 compiled with CUDA 13.0", "CUDA runtime version 13000, driver version 13000", ""]
    lines += ["Job summary", "===========", "", "  Nodes  Processes         GPUs  Processes     GPUs"]
    lines += ["(total)   per node  per process    (total)  (total)"]
    lines += [f"{nodes:7d}{size // nodes:11d}{1:13d}{size:11d}{size:9d}", ""]
    lines += [f"Communicators... ({'5.01' if timeout else '0.00'}s)", "=============", ""]
    lines += ["Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors"]
    lines += ["    #  in group  per comm  per node  per comm  in group"]
    lines += [f"{0:5d}{1:10d}{nodes:10d}{there // nodes:10d}{size:10d}{there:10d}   RUNNING  {errors}", ""]
    lines += ["Errors", "======", ""]
    who = {r: f"GPU {r} managed by process {pid(r)} on node {_host(hosts, r)}" for r in comm.members}
    if gone:
        lines += ["INCOMPLETE", f"  Missing communicator data from {len(gone)} job process{'es' * (len(gone) > 1)}"]
        lines += [f"  Process {pid(r)} on node {_host(hosts, r)} managing GPU {r}" for r in gone] + [""]
        lines += [f"#0-0 ({comm.hash:016x}) INCOMPLETE"]
        lines += [f"  Missing communicator data from {len(gone)} rank{'s' * (len(gone) > 1)}"]
        lines += [f"  Rank {local[r]} -- {who[r]}" for r in gone] + [""]
    lines += ["Warnings", "========", ""]
    if differing:
        lines += [f"#0-0 ({comm.hash:016x}) MISMATCH"]
        for op, every in differing.items():
            counts = {r: v for r, v in every.items() if r not in gone}
            values = list(counts.values())
            common = max(sorted(set(values), reverse=True), key=values.count)
            alone = values.count(common) == 1
            lines += [f"  Communicator ranks have different {op} operation counts"]
            if not alone:
                lines += [f"  {values.count(common)} ranks have launched up to operation {common}"]
            lines += [
                f"  Rank {local[r]} has launched up to operation {v} -- {who[r]}"
                for r, v in counts.items()
                if alone or v != common
            ]
            lines += [""]
    return Blob(f"ras/{at:.3f}-{node}.txt", ("\n".join(lines) + "\n").encode())


def ras_error(at: float, node: str = "0") -> Blob:
    """RAS accepted the connection and never answered."""
    return Blob(f"ras/{at:.3f}-{node}.error.txt", b"TimeoutError('timed out')")


def log(name: str, *lines: str) -> Blob:
    """A framework log."""
    return Blob(f"logs/{name}", ("\n".join(lines) + "\n").encode())


def stamped(at: float) -> str:
    """glog's `1129 21:07:57.000000000`, in a zone of UTC."""
    return clock.strftime("%m%d %H:%M:%S.", clock.gmtime(at)) + f"{at % 1:.9f}"[2:]


def watchdog(rank: int, at: float, seq: int = 751, op: str = "ALLREDUCE") -> str:
    """torch's time-out line."""
    return (
        f"[rank{rank}]:[E{stamped(at)} ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation "
        f"timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=65536, NumelOut=65536, Timeout(ms)=10000) ran for 10066 "
        "milliseconds before timing out."
    )


def traceback(rank: int | None, error: str, at: float | None = None) -> list[str]:
    """A Python traceback as torchrun's prefix shows it; `at`: a stamped line before it, so that the log has a time."""
    prefix = f"[rank{rank}]: " if rank is not None else ""
    lines = [] if at is None else [f"[rank{rank}]:[W{stamped(at)} ProcessGroupNCCL.cpp:1] a line with a time"]
    lines += [f"{prefix}Traceback (most recent call last):"]
    lines += [f'{prefix}  File "/opt/engine/serve/worker.py", line 128, in step', f"{prefix}    run(batch)"]
    return [*lines, f"{prefix}{error}"]


def kernel(*lines: str) -> Blob:
    """A kernel log."""
    return Blob(f"kernel/{HOST}.log", ("\n".join(lines) + "\n").encode())
