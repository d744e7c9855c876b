"""Deaths that launchers report in forms of their own: Slurm's task lists, torchrun's table, Ray's actor report."""

from __future__ import annotations

import re
from dataclasses import replace

from rankmuster.evidence import times
from rankmuster.evidence.crash_log import SIGNALS
from rankmuster.evidence.log_lines import Origins
from rankmuster.evidence.log_prefix import peel, signed, whole
from rankmuster.model.frameworklog import LineOrigin, SignalDeath, WorkerDeath

MAX_TEXT = 600
"""Characters kept of a report."""
MAX_TASKS = 4096
"""Tasks taken from one Slurm list; larger lists are cut."""
TABLE_LINES = 8
"""Lines of one row of torchrun's failure table."""
ACTOR_LINES = 12
"""Lines of Ray's report of a dead actor in which its pid and address stand."""

_SRUN = re.compile(
    r"srun: error: (?P<node>\S{1,120}): tasks? (?P<tasks>[\d,\-\[\]]{1,2000}): (?P<what>[A-Za-z][^\n]{1,80})"
)
_NODE_FAILURE = re.compile(r"srun: error: Node failure on (?P<node>\S{1,200})")
_EXIT = re.compile(r"[Ee]xit(?:ed with exit)? code (\d{1,5})")
_ROW = {
    "time": re.compile(r"^\s*time\s{1,10}: (\S{1,60})"),
    "host": re.compile(r"^\s*host\s{1,10}: (\S{1,200})"),
    "rank": re.compile(r"^\s*rank\s{1,10}: (\d{1,9}) \(local_rank: (\d{1,6})\)"),
    "exit": re.compile(r"^\s*exitcode\s{1,4}: (-?\d{1,9}) \(pid: (\d{1,9})\)"),
}


def _tasks(listed: str) -> list[int]:
    tasks: list[int] = []
    for part in listed.strip("[]").split(","):
        low, _, high = part.partition("-")
        first, last = whole(low), whole(high or low)
        if first is None or last is None or len(tasks) >= MAX_TASKS:
            continue
        tasks.extend(range(first, min(last, first + MAX_TASKS - len(tasks) - 1) + 1))
    return tasks


def slurm_deaths(origin: LineOrigin, line: str, one_rank_a_task: bool) -> list[object]:
    down = _NODE_FAILURE.search(line)
    if down:
        node = down["node"]
        return [WorkerDeath(origin, "slurm", f"node {node}", None, None, None, line.strip()[:MAX_TEXT], node)]
    m = _SRUN.search(line)
    if m is None:
        return []
    what = m["what"].strip()
    # "Out Of Memory" is Slurm's word for a task that the step's memory limit killed.
    signal = 9 if what == "Out Of Memory" else next((n for s, n in SIGNALS.items() if what.startswith(s)), None)
    code = _EXIT.search(what)
    found: list[object] = []
    for task in _tasks(m["tasks"]):
        rank = task if one_rank_a_task else None
        exit_code = whole(code.group(1)) if code else None
        said = line.strip()[:MAX_TEXT]
        found.append(WorkerDeath(origin, "slurm", f"task {task}", rank, None, exit_code, said, m["node"]))
        if signal is not None:
            found.append(SignalDeath(origin, signal, rank, None, None, said))
    return found


def torchrun_row(lines: list[tuple[int, str]], index: int, origins: Origins) -> list[object]:
    """The row of torchrun's table whose exit code stands at `index`; its time is when the failure was first seen."""
    number, line = lines[index]
    values: dict[str, re.Match[str]] = {}
    first = False
    for back in range(index, max(-1, index - TABLE_LINES), -1):
        message = peel(lines[back][1]).message
        for name, pattern in _ROW.items():
            m = pattern.match(message)
            if m and name not in values:
                values[name] = m
        if "Root Cause" in message:
            first = True
        if message.startswith("[") and "Root Cause" not in message:
            first = back > 0 and "Root Cause" in lines[back - 1][1]
            break
    if "exit" not in values:
        return []
    origin, _ = origins.of(number, line)
    if "time" in values:
        origin = replace(origin, stamp=times.iso(values["time"].group(1).replace("_", " ")) or origin.stamp)
    code, pid = signed(values["exit"].group(1)), whole(values["exit"].group(2))
    rank = whole(values["rank"].group(1)) if "rank" in values else None
    worker = f"local_rank {values['rank'].group(2)}" if "rank" in values else "worker"
    host = values["host"].group(1) if "host" in values else None
    said = " ".join(m.group(0).strip() for m in reversed(list(values.values())))[:MAX_TEXT]
    found: list[object] = [WorkerDeath(origin, "torchrun", worker, rank, pid, code, said, host, first)]
    if code is not None and code < 0:
        found.append(SignalDeath(origin, -code, rank, pid, code, said))
    return found


def ray_actor(lines: list[tuple[int, str]], index: int, origins: Origins) -> list[object]:
    """Ray's report that an actor's process died: a message of several lines with its class, pid and address."""
    number, line = lines[index]
    said = " ".join(peel(more).message.strip() for _, more in lines[index : index + ACTOR_LINES])
    pid = re.search(r"\bpid: (\d{1,9})", said)
    host = re.search(r"\bip: (\S{1,80})", said)
    name = re.search(r"\bclass_name: (\S{1,200})", said)
    origin, _ = origins.of(number, line)
    return [
        WorkerDeath(
            origin,
            "ray",
            name.group(1) if name else "actor",
            None,
            whole(pid.group(1)) if pid else None,
            None,
            said[:MAX_TEXT],
            host.group(1) if host else None,
        )
    ]
