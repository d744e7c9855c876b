"""`instance.json`: what the supervisor knows of the instance and its processes -> `InstanceFacts`.

`{"instance": "llm-0", "deployment": ..., "incarnation": ..., "world_size": 4, "last_look": <unix seconds>,
"processes": [{"rank": 0, "pid": 6223, "host": "...", "gpu": 0, "exit_code": null, "exited_at": null}, ...],
"environment": {"NCCL_DEBUG": "INFO", ...}}`. Validated by hand, field by field: one bad field must not cost the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from rankmuster.evidence import json_text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.exit_codes import read_exit
from rankmuster.evidence.json_fields import Fields, number
from rankmuster.model.instance import InstanceFacts, ProcessFacts
from rankmuster.model.node import TaskState
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

MAX_RANK = 1_000_000
"""Ranks of one instance; larger numbers are damage."""

STATES = {state.value: state for state in TaskState}

_WINDOW = 65_536
_OWN = re.compile(rb'"(?:world_size|processes|procs)"\s*:')
_INSTANCE = re.compile(rb'"instance"\s*:')
_RANKS = re.compile(rb'"ranks"\s*:')
# A verdict, a Flight Recorder dump, a RAS reply, a manifest and an engine's own pages speak of worlds and ranks too.
_FOREIGN = re.compile(
    rb'"(?:suspects|findings|pg_config|pg_status|entries|communicators|look_times|collectors|coll_perf)"\s*:'
)
_PROCESSES = ("processes", "procs", "ranks")


def recognises(blob: Blob) -> bool:
    """A JSON object with a world size or processes and no other format's keys."""
    head = blob.data[:_WINDOW]
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{" or _FOREIGN.search(head):
        return False
    return _OWN.search(head) is not None or (_INSTANCE.search(head) is not None and _RANKS.search(head) is not None)


def read(blob: Blob) -> Reading:
    """The facts; a field of the wrong type is left out and named, a process without a usable rank too."""
    parsed = json_text.parse(blob.data)
    document = parsed.value
    if not isinstance(document, dict) or not {"instance", "world_size", *_PROCESSES} & document.keys():
        message = f"begins like an instance.json but cannot be read ({parsed.damage or 'no field of its own'})"
        return Reading(problems=(Problem(ProblemKind.DAMAGED, blob.path, message),))
    fields = Fields(document, "instance")
    world_size = fields.integer("world_size", least=1, most=MAX_RANK)
    complaints: list[str] = []
    processes = _processes(document, complaints)
    for process in processes:
        if world_size is not None and process.rank >= world_size:
            complaints.append(f"rank {process.rank} does not fit into a world of {world_size}")
    facts = InstanceFacts(
        source=blob.path,
        instance=fields.text("instance", "name"),
        deployment=fields.text("deployment", "revision"),
        incarnation=_incarnation(document.get("incarnation")),
        world_size=world_size,
        started_at=fields.time("started_at", "start_time"),
        last_look=fields.time("last_look"),
        processes=processes,
        environment=_environment(document, complaints),
        gpus_of_nodes=document.get("gpu_numbers") == "node",
    )
    problems = [Problem(ProblemKind.CORRUPT, blob.path, text) for text in (*fields.complaints, *complaints)]
    if parsed.damage:
        message = f"damaged ({parsed.damage}); what stands before was used, with {len(processes)} process(es)"
        problems.insert(0, Problem(ProblemKind.DAMAGED, blob.path, message))
    return Reading((facts,), tuple(problems), 1)


def _incarnation(value: object) -> str | None:
    """A string as it is; start time and pod UIDs in one canonical spelling, so that equal ones compare equal."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _environment(document: Mapping[str, object], complaints: list[str]) -> dict[str, str]:
    value = document.get("environment", document.get("env"))
    if value is None:
        return {}
    if not isinstance(value, dict):
        complaints.append("the environment is not an object and was left out")
        return {}
    return {name: setting for name, setting in value.items() if isinstance(setting, str)} | {
        name: json.dumps(setting) for name, setting in value.items() if isinstance(setting, (int, float))
    }


def _processes(document: Mapping[str, object], complaints: list[str]) -> tuple[ProcessFacts, ...]:
    listed = next((document[key] for key in _PROCESSES if document.get(key) is not None), ())
    if isinstance(listed, dict):
        listed = [{"rank": rank, **entry} if isinstance(entry, dict) else entry for rank, entry in listed.items()]
    if not isinstance(listed, (list, tuple)):
        complaints.append("the processes are not a list and were left out")
        return ()
    by_rank: dict[int, ProcessFacts] = {}
    for position, entry in enumerate(listed):
        process = _process(entry, position, complaints)
        if process is None:
            continue
        if process.rank in by_rank:
            complaints.append(f"rank {process.rank} is listed twice; the later entry was used")
        by_rank[process.rank] = process
    return tuple(by_rank.values())


def _process(entry: object, position: int, complaints: list[str]) -> ProcessFacts | None:
    if not isinstance(entry, dict):
        complaints.append(f"process {position} is not an object and was left out")
        return None
    rank = number(entry.get("rank"), least=0, most=MAX_RANK)
    if rank is None:
        complaints.append(f"process {position} has no usable rank ({str(entry.get('rank'))[:40]!r}) and was left out")
        return None
    fields = Fields(entry, f"rank {rank}")
    code, note = read_exit(entry)
    process = ProcessFacts(
        rank=rank,
        pid=fields.integer("pid", least=1),
        host=fields.text("host", "hostname"),
        gpu=fields.integer("gpu", "gpu_index"),
        exit_code=code,
        exited_at=fields.time("exited_at", "exit_time"),
        gpu_uuid=fields.text("gpu_uuid"),
        bus_id=fields.text("bus_id"),
        pod=fields.text("pod"),
        node=fields.text("node"),
        oom_killed=True if entry.get("reason") == "OOMKilled" else fields.boolean("oom_killed"),
        note=note,
        state=STATES.get(state) if isinstance(state := entry.get("state"), str) else None,
        local_rank=number(entry.get("local_rank"), most=MAX_RANK),
    )
    complaints.extend(fields.complaints)
    if note and code is None:
        complaints.append(f"rank {rank}: {note}")
    return process


READER = Reader("instance.json", Plane.PLATFORM, ReaderKind.DOCUMENT, recognises, read)
