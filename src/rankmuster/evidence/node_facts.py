"""`platform/node.json` of a bundle: the instance's processes from outside, limits and identity -> `NodeState`.

`{"schema": "rankmuster.node/1", "host": "...", "looks": [<unix seconds>, ...], "tasks": [{"pid": 5890, "rank": 0,
"role": "worker", "looks": [{"state": "S", "wchan": "futex_wait_queue", "cpu_seconds": 12.5}, {"state": "T"}]}],
"cgroups": [{"path": "/", "time": ..., "oom_kill": 0}], "shared_memory": [{"size_bytes": ..., "free_bytes": ...,
"pids": [5890]}], "kernel": {...}, "pod": {...}, "slurm": {...}}`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from rankmuster.evidence import json_text, names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.instance import MAX_RANK
from rankmuster.evidence.json_fields import Fields, number, unix_seconds
from rankmuster.model.node import CgroupLook, NodeState, NodeTask, SharedMemory, StuckThread, TaskLook, TaskState
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

SCHEMA = re.compile(rb'"schema"\s*:\s*"rankmuster\.node/')
MAX_ENTRIES = 4096
"""Processes, groups or threads of one file."""
MAX_LOOKS = 1024
MAX_FACTS = 2048
LARGEST = 1e15
"""Seconds of CPU time and the like beyond are damage."""

_OWN = frozenset({"schema", "host", "looks", "tasks", "cgroups", "shared_memory"})
_STATES = {state.value: state for state in TaskState}


def recognises(blob: Blob) -> bool:
    """A JSON object of this schema."""
    return json_text.begins(blob.data, SCHEMA)


def read(blob: Blob) -> Reading:
    """One state; a process without a usable pid or look is left out and named."""
    parsed = json_text.parse(blob.data)
    if not isinstance(parsed.value, dict):
        message = f"begins like a node.json but cannot be read ({parsed.damage or 'not an object'})"
        return Reading(problems=(Problem(ProblemKind.DAMAGED, blob.path, message),))
    document = parsed.value
    fields = Fields(document, "node")
    times = [unix_seconds(each) for each in _list(document, "looks")]
    complaints: list[str] = []
    tasks = []
    for position, entry in enumerate(_objects(document, "tasks")):
        task = _task(entry, times)
        if task is None:
            complaints.append(f"process {position} has no usable pid or look and was left out")
        else:
            tasks.append(task)
    state = NodeState(
        source=blob.path,
        host=fields.text("host") or names.host_of(blob.path),
        looks=tuple(sorted(time for time in times if time is not None)),
        tasks=tuple(tasks),
        cgroups=tuple(_cgroups(document)),
        shared_memory=tuple(_shared_memory(document)),
        facts=dict(_facts(document)),
    )
    problems = [Problem(ProblemKind.CORRUPT, blob.path, text) for text in (*fields.complaints, *complaints[:20])]
    if parsed.damage:
        message = f"damaged ({parsed.damage}); what stands before was used, with {len(tasks)} process(es)"
        problems.insert(0, Problem(ProblemKind.DAMAGED, blob.path, message))
    return Reading((state,), tuple(problems), 1)


def _task(entry: Mapping[str, object], times: Sequence[float | None]) -> NodeTask | None:
    """`times`: of each look, None where it cannot be read; looks belong to them by position."""
    pid = number(entry.get("pid"), least=1)
    looks = [
        (time, look)
        for look, time in zip(_list(entry, "looks")[:MAX_LOOKS], times, strict=False)
        if isinstance(look, dict) and time is not None
    ]
    looks.sort(key=lambda timed: timed[0])
    if pid is None or not looks:
        return None
    limits = entry.get("limits")
    last = looks[-1][1]
    codes = [look.get("exit_code") for _, look in looks]
    return NodeTask(
        pid=pid,
        rank=number(entry.get("rank"), most=MAX_RANK),
        role=_text(entry.get("role")),
        name=_text(entry.get("name")),
        looks=tuple(_look(look, time) for time, look in looks),
        exit_code=next((code for each in reversed(codes) if (code := number(each, -255, 255)) is not None), None),
        memlock_bytes=_limit(limits.get("memlock")) if isinstance(limits, dict) else None,
        rss_bytes=number(last.get("rss_bytes")),
        threads=number(last.get("threads")),
        stuck_threads=tuple(
            StuckThread(_text(one.get("name")) or "", _state(one.get("state")), _text(one.get("wchan")))
            for one in _objects(entry, "stuck_threads")
        ),
    )


def _look(look: Mapping[str, object], time: float) -> TaskLook:
    cpu = look.get("cpu_seconds")
    usable = isinstance(cpu, (int, float)) and not isinstance(cpu, bool) and 0 <= cpu < LARGEST
    return TaskLook(
        time=time,
        state=_state(look.get("state")),
        wait_channel=_text(look.get("wchan")),
        cpu_seconds=float(cpu) if usable and isinstance(cpu, (int, float)) else None,
        switches=number(look.get("voluntary_switches")),
    )


def _state(value: object) -> TaskState:
    return _STATES.get(value, TaskState.UNKNOWN) if isinstance(value, str) else TaskState.UNKNOWN


def _limit(value: object) -> float | None:
    if value == "unlimited":
        return math.inf
    found = number(value)
    return None if found is None else float(found)


def _cgroups(document: Mapping[str, object]) -> Iterator[CgroupLook]:
    for entry in _objects(document, "cgroups"):
        path, time = _text(entry.get("path")), unix_seconds(entry.get("time"))
        if path is not None and time is not None:
            limit, used = number(entry.get("memory_max")), number(entry.get("memory_current"))
            yield CgroupLook(path, time, limit, used, number(entry.get("oom_kill")))


def _shared_memory(document: Mapping[str, object]) -> Iterator[SharedMemory]:
    for entry in _objects(document, "shared_memory"):
        size, free = number(entry.get("size_bytes")), number(entry.get("free_bytes"))
        if size is not None and free is not None:
            pids = (number(pid, least=1) for pid in _list(entry, "pids")[:MAX_ENTRIES])
            yield SharedMemory(size, free, tuple(pid for pid in pids if pid is not None))


def _facts(document: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Texts, numbers and truths of everything else, three levels deep."""
    left = MAX_FACTS
    stack: list[tuple[tuple[str, ...], object]] = [
        ((key,), value) for key, value in reversed(list(document.items())) if key not in _OWN
    ]
    while stack and left:
        path, value = stack.pop()
        if isinstance(value, dict) and len(path) < 3:
            stack.extend(((*path, str(key)), each) for key, each in reversed(list(value.items())[:MAX_FACTS]))
        elif isinstance(value, (str, int, float)):
            left -= 1
            yield " / ".join(path), str(value)


def _list(entry: Mapping[str, object], key: str) -> list[object]:
    value = entry.get(key)
    return value if isinstance(value, list) else []


def _objects(entry: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    return [each for each in _list(entry, key)[:MAX_ENTRIES] if isinstance(each, dict)]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


READER = Reader("node.json", Plane.PLATFORM, ReaderKind.DOCUMENT, recognises, read)
