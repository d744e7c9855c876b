"""The same dump in torch's JSON form: no frames, counters as texts, 0 for unknown times, keys sorted."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.flight.entry import EntryKind
from benchmarks.flight.recorder import Held

STATES = ("scheduled", "started", "completed")
STATUS_KEYS = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")


def write(
    version: str,
    config: dict[str, dict[str, str]],
    lib: tuple[str, str] | None,
    status: dict[str, tuple[int, int, int]],
    kinds: list[EntryKind],
    held: Held,
) -> bytes:
    """The bytes of one dump; without entries the key is absent."""
    minor = int(version.split(".")[1])
    top: dict[str, Any] = {"version": version, "pg_config": config, "nccl_comm_state": {}}
    if lib is not None:
        top[lib[0]] = lib[1]
    if minor >= 4:
        top["pg_status"] = {
            key: {name: str(number) for name, number in zip(STATUS_KEYS, row, strict=True)}
            for key, row in status.items()
        }
    entries = [_entry(kinds[held.kind[index]], held, index, minor) for index in range(len(held.kind))]
    if entries:
        top["entries"] = entries
    return json.dumps(top, sort_keys=True, separators=(",", ":")).encode()


def _entry(kind: EntryKind, held: Held, index: int, minor: int) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "record_id": int(held.record_id[index]),
        "pg_id": kind.pg_id,
        "process_group": [kind.group.name, kind.group.desc],
        "collective_seq_id": int(held.seq[index]),
        "p2p_seq_id": int(held.p2p[index]),
        "op_id": int(held.op[index]),
        "profiling_name": kind.profiling_name,
        "time_created_ns": int(held.created_ns[index]),
        "input_sizes": kind.ins,
        "input_dtypes": kind.in_dtypes,
        "output_sizes": kind.outs,
        "output_dtypes": kind.out_dtypes,
        "state": STATES[held.state[index]],
        "time_discovered_started_ns": int(held.started_ns[index]),
        "time_discovered_completed_ns": int(held.completed_ns[index]),
        "retired": bool(held.retired[index]),
        "is_p2p": kind.is_p2p,
    }
    if minor >= 9:
        entry["thread_name"], entry["thread_id"] = kind.thread
    if minor >= 4:
        entry["timeout_ms"] = kind.timeout_ms
    if held.duration_ms[index] == held.duration_ms[index]:
        entry["duration_ms"] = float(held.duration_ms[index])
    return entry
