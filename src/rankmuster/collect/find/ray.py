"""Which Ray job a process works for, by the log files that it has open.

A Ray worker's title names no job and has overwritten its variables; its stdout is
`SESSION/logs/worker-<worker id>-<job id>-<pid>.out`, and a driver holds
`SESSION/logs/python-core-driver-<job id>..._<pid>.log` open.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath

from rankmuster.collect.proc import NotAllowed, Proc

MAX_DESCRIPTORS = 2048
"""Open files looked at of one process: engines hold some hundreds, sockets of clients besides."""
DEFAULT_LOGS = "/tmp/ray/session_latest/logs"  # noqa: S108 - where Ray keeps them, not a file of ours
_LOG = re.compile(
    r"(/.{1,300}?/session_[^/]{1,100}/logs)/(?:worker|python-core-driver)-(?:[0-9a-f]{1,64}-)?([0-9a-f]{8})"
)


def job(proc: Proc, pid: int, *, worker: bool) -> tuple[str, str] | None:
    """(log folder as the process sees it, job id). `worker`: its stdout is enough to look at."""
    if worker:
        return _job_of(_link(proc, pid, "fd/1"))
    try:
        descriptors = os.listdir(proc.root / str(pid) / "fd")[:MAX_DESCRIPTORS]
    except OSError:
        return None
    for descriptor in descriptors:
        found = _job_of(_link(proc, pid, f"fd/{descriptor}"))
        if found is not None:
            return found
    return None


def folder(command: tuple[str, ...]) -> str | None:
    """The log folder that a raylet's command line names."""
    for argument in command:
        name, equals, value = argument.partition("=")
        if equals and name.replace("-", "_") in ("__log_dir", "__session_dir"):
            return value if name.replace("-", "_") == "__log_dir" else str(PurePosixPath(value) / "logs")
    return None


def _link(proc: Proc, pid: int, name: str) -> str | None:
    try:
        return proc.link(pid, name)
    except (NotAllowed, OSError):
        return None


def _job_of(path: str | None) -> tuple[str, str] | None:
    found = _LOG.match(path) if path else None
    return (found[1], found[2]) if found else None
