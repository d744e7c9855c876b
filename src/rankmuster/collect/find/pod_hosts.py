"""What the pods of a node call their host: NCCL, RAS and torch write that name, and a node's own name is another one.

Seen from the host's pid namespace the processes of several pods are one instance's; each knows its own pod's name.
"""

from __future__ import annotations

from dataclasses import replace

from rankmuster.collect.files_below import read_below
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import ProcessOfInstance, Target

HOSTNAME_FILE = "/etc/hostname"
"""Written by the kubelet for each pod."""

MAX_BYTES = 256


def with_pod_hosts(machine: Machine, target: Target) -> Target:
    """The target with the hosts of its processes as they know them; its own is that of its first rank."""
    proc = Proc(machine.proc)
    own = _namespace(proc, "self")
    known: dict[str, str | None] = {}

    def named(process: ProcessOfInstance) -> ProcessOfInstance:
        space = _namespace(proc, process.pid)
        if space is None or space == own:
            return process
        if known.get(space) is None:
            known[space] = _said(process)
        return replace(process, host=known[space])

    processes = tuple(map(named, target.processes))
    found = replace(target, processes=processes)
    first = next((one.host for one in (*found.workers, *processes) if one.host is not None), None)
    return replace(found, host=first) if first is not None else found


def _namespace(proc: Proc, pid: int | str) -> str | None:
    try:
        return proc.link(pid, "ns/uts")
    except (NotAllowed, OSError):
        return None


def _said(process: ProcessOfInstance) -> str | None:
    try:
        text = read_below(process.root, HOSTNAME_FILE, MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        text = ""
    name = text.strip() or process.environ.get("HOSTNAME", "")
    name = name.partition(".")[0]
    return name if name and name.isprintable() and " " not in name else None
