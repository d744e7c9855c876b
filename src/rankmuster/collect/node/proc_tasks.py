"""One process from outside: its state, where it waits in the kernel, what it has used. From /proc, as it is.

Only files that a stuck process cannot hold up are read (`system_call` aside): `stat`, `status`, `wchan`, `limits`; not
`cmdline`, `environ` or `maps`, which wait for a lock that a thread in uninterruptible sleep may hold. Source: proc(5).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.sys_files import names, read_bytes, read_number, read_text
from rankmuster.collect.proc_text import Stat, parse_stat

MAX_THREADS = 4096
"""Threads of one process that are looked at; a worker of vLLM has 100 to 500."""
MAX_STUCK = 64
"""Threads in an uninterruptible or stopped state that are named: all of a frozen process would be the same again."""

_STATUS = re.compile(r"^(voluntary_ctxt_switches|nonvoluntary_ctxt_switches|Threads|SigQ|TracerPid):\s*(\d+)", re.M)
_LIMIT = re.compile(r"^(Max [a-z ]+?) {2,}(\S+) +(\S+)", re.M)
_LIMITS = {"Max locked memory": "memlock", "Max open files": "nofile", "Max stack size": "stack"}
_LIMITS |= {"Max processes": "nproc", "Max address space": "as"}


def stat(folder: Path) -> Stat | None:
    """Of a process's or a thread's folder; None where it is gone, or the line is not of this form."""
    data = read_bytes(folder / "stat", 4096)
    return parse_stat(data) if data else None


def look(folder: Path) -> dict[str, object]:
    """What changes: state, wait channel, CPU time, context switches, who traces it."""
    now = stat(folder)
    if now is None:
        return {"state": "gone"}
    found: dict[str, object] = {"state": now.state, "cpu_seconds": round(now.cpu_seconds, 2), "threads": now.threads}
    status = dict(_STATUS.findall(read_text(folder / "status") or ""))
    for key, name in (
        ("voluntary_ctxt_switches", "voluntary_switches"),
        ("nonvoluntary_ctxt_switches", "involuntary_switches"),
    ):
        if key in status:
            found[name] = int(status[key])
    if status.get("TracerPid", "0") != "0":
        found["traced"] = True
    found |= {"rss_bytes": now.rss_bytes} | _waits(folder)
    if now.state in "ZX":
        # A main thread that has ended while others go on is a zombie, too: then the process lives.
        found["state"] = now.state if now.threads <= 1 else "S"
        if now.threads <= 1 and now.exit_status:
            found["exit_code"] = os.waitstatus_to_exitcode(now.exit_status) if _whole(now.exit_status) else None
    return {name: value for name, value in found.items() if value is not None}


def _whole(status: int) -> bool:
    return os.WIFEXITED(status) or os.WIFSIGNALED(status)


def _waits(folder: Path) -> dict[str, object]:
    """The kernel function it sleeps in; 0 where it runs, or where that is hidden."""
    channel = read_text(folder / "wchan", 128)
    return {"wchan": channel} if channel and channel != "0" and channel.isprintable() else {}


def system_call(folder: Path) -> dict[str, int]:
    """The number of the system call it is in; its arguments are addresses of its memory and stay out.

    Reading it waits for a lock that a process in execve holds: ask when everything else is safe.
    """
    call = (read_text(folder / "syscall", 256) or "").split()
    return {"syscall": int(call[0])} if call and call[0].isascii() and call[0].lstrip("-").isdecimal() else {}


def limits(folder: Path) -> dict[str, int | str]:
    """Soft limits in bytes or counts; "unlimited" as the kernel writes it."""
    found: dict[str, int | str] = {}
    for name, soft, _ in _LIMIT.findall(read_text(folder / "limits") or ""):
        if name in _LIMITS:
            found[_LIMITS[name]] = int(soft) if soft.isdecimal() else "unlimited"
    return found


def scores(folder: Path) -> dict[str, int]:
    """How likely the out-of-memory killer is to choose it."""
    found = {name: read_number(folder / name) for name in ("oom_score", "oom_score_adj")}
    return {name: value for name, value in found.items() if value is not None}


def threads(folder: Path, deadline: Deadline) -> dict[str, object]:
    """How many threads are in which state; those stopped or not to be interrupted with where they wait."""
    states: dict[str, int] = {}
    stuck: list[dict[str, object]] = []
    for tid in names(folder / "task", MAX_THREADS):
        if deadline.passed:
            break
        thread = folder / "task" / tid
        now = stat(thread)
        if now is None or not tid.isdecimal():
            continue
        states[now.state] = states.get(now.state, 0) + 1
        if now.state in "DTt" and len(stuck) < MAX_STUCK:
            name = _printable(read_text(thread / "comm", 64) or "")
            stuck.append({"tid": int(tid), "name": name, "state": now.state, **_waits(thread)})
    return {"thread_states": states} | ({"stuck_threads": stuck} if stuck else {})


def _printable(name: str) -> str:
    return re.sub(r"[^\w:.\-/ @+]", "?", name)[:64]
