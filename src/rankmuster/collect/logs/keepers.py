"""Logs that somebody keeps for the instance: the container runtime on its node, and systemd's journal."""

from __future__ import annotations

import os
import re
import select
import subprocess
from collections.abc import Iterable
from pathlib import Path

from rankmuster.collect import files_below
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.table import cgroup_names
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import ProcessOfInstance

JOURNAL_SECONDS = 4.0
"""For journalctl: a journal of many files takes seconds to open."""
JOURNAL_LINES = 20_000
"""Last lines of the unit: some MiB."""
_LOG = re.compile(r"\d{1,6}\.log(?:\.\d{8}-\d{6})?")


def owners(proc: Proc, processes: Iterable[ProcessOfInstance]) -> tuple[set[str], set[str]]:
    """Pods' UIDs and systemd units of the processes, by their cgroups and variables."""
    pods: set[str] = set()
    units: set[str] = set()
    for process in processes:
        try:
            cgroup = proc.read(process.pid, "cgroup", 65536) or b""
        except (NotAllowed, OSError):
            cgroup = b""
        pod, _, unit = cgroup_names(cgroup.decode("utf-8", "replace"))
        pods.update(uid for uid in (pod, process.environ.get("POD_UID")) if uid)
        units.update([unit] if unit else [])
    return pods, units


def pod_logs(var_log: Path, pods: set[str]) -> list[Source]:
    """What the container runtime has written for the pods: `pods/NAMESPACE_NAME_UID/CONTAINER/N.log`, newest first."""
    found: list[Source] = []
    for folder in _listed(var_log, "/pods"):
        if folder.rsplit("_", 1)[-1] not in pods:
            continue
        for container in _listed(var_log, f"/pods/{folder}"):
            place = f"/pods/{folder}/{container}"
            logs = [name for name in _listed(var_log, place) if _LOG.fullmatch(name)]
            for name in sorted(logs, key=lambda name: -int(name.partition(".")[0])):
                found.append(Source(var_log, f"{place}/{name}", f"pod-{container}-{name}"))
    return found


def _listed(root: Path, path: str) -> list[str]:
    try:
        return files_below.names_in(root, path)
    except OSError:
        return []


def journal(unit: str, limit: int, deadline: Deadline, program: str = "journalctl") -> bytes | str:
    """The unit's last lines as the processes wrote them; why there are none, in words, where that is so."""
    command = [program, "--no-pager", "--quiet", "--output=cat", f"--lines={JOURNAL_LINES}", f"--unit={unit}"]
    seconds = min(JOURNAL_SECONDS, deadline.remaining())
    environ = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "SYSTEMD_COLORS": "0"}
    try:
        # A fixed program; the unit is an argument of its own.
        child = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ
        )
    except FileNotFoundError:
        return f"{program} is not here"
    except OSError as error:
        return f"{program} cannot be started ({error.strerror})"
    try:
        text, size = _last(child, limit, Deadline.after(seconds))
        if text is None:
            return f"{program} --unit={unit} took more than {seconds:.1f} s"
        child.wait(1.0)
    except subprocess.TimeoutExpired:
        return f"{program} --unit={unit} closed its output and does not end"
    finally:
        _end(child)
    if child.returncode != 0:
        words = text.decode("utf-8", "replace").strip().splitlines()
        return f"{program} --unit={unit} ended with {child.returncode}" + (f": {words[0][:120]}" if words else "")
    return text[text.find(b"\n") + 1 :] if size > limit else text


def _last(child: subprocess.Popen[bytes], limit: int, deadline: Deadline) -> tuple[bytes, int] | tuple[None, int]:
    """The last `limit` bytes of what it writes, and how many there were; None when it does not end in time."""
    assert child.stdout is not None
    kept, size = b"", 0
    poller = select.poll()
    poller.register(child.stdout, select.POLLIN)
    while not deadline.passed:
        ready = poller.poll(deadline.remaining() * 1000)
        piece = os.read(child.stdout.fileno(), 1 << 18) if ready else b""
        if ready and not piece:
            return kept[-limit:], size
        size += len(piece)
        kept += piece
        kept = kept if len(kept) <= 2 * limit else kept[-limit:]
    return None, size


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.kill()
        child.wait()
    if child.stdout is not None:
        child.stdout.close()
