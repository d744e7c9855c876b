"""Looks at a node's processes: all of them a little, those that may belong to an instance closely.

`stat` of everything takes no lock; titles and variables take the lock of the process's memory map and are read
patiently; variables are read of candidates only. 5,000 processes take some tenths of a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rankmuster.collect.bounded import each
from rankmuster.collect.find import ray, titles
from rankmuster.collect.find.seen import Seen, Table
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import Role

_T = TypeVar("_T")

PATIENCE = 0.5
"""Seconds for one read of a process's memory map: it takes microseconds, or it does not return. On a machine whose
processors are all busy a thread may not run for tenths of a second; eight stuck ranks still fit into the total."""
TOTAL = 4.0
"""Seconds for one kind of read over all processes; a node with many stuck ones is looked at in part."""

_STARTERS = ("slurmstepd", "orted", "prted", "hydra_pmi_proxy", "raylet", "torchrun", "mpirun", "mpiexec")
_PROGRAMS = re.compile(r"(?:.*/)?(?:python|pypy|pt_main_thread|vllm|sglang)[^/]*")
_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})")
_CONTAINER = re.compile(r"[0-9a-f]{64}")
_UNIT = re.compile(r"/([^/\n]{1,200}\.service)(?=/|\n|$)")


@dataclass
class Doubts:
    """What could not be looked at, gathered for `notes`."""

    denied: dict[int, set[int]] = field(default_factory=dict)  # user -> pids; some are looked at twice
    stuck: set[int] = field(default_factory=set)
    unread: int = 0
    gone: set[int] = field(default_factory=set)

    def notes(self, about: Set[int] | None = None) -> list[str]:
        """One sentence each. `about`: the only processes whose refusals matter; None: everybody's."""
        denied = {
            uid: sorted(pid for pid in pids if about is None or pid in about)
            for uid, pids in sorted(self.denied.items())
        }
        found = [
            f"{len(pids)} process(es) of uid {uid} (pids {', '.join(map(str, pids[:8]))}) do not let their environment "
            "be read; run as that user or as root (in a container also with SYS_PTRACE and a shared pid namespace)"
            for uid, pids in denied.items()
            if pids
        ]
        if self.stuck:
            shown = ", ".join(map(str, sorted(self.stuck)[:8]))
            found.append(
                f"the memory map of pid(s) {shown} did not let itself be read within {PATIENCE} s; a process that "
                "hangs in a driver holds it: what is known of them comes from `stat` alone"
            )
        if self.unread:
            found.append(f"{self.unread} process(es) were not looked at closely, since others had taken the time")
        if self.gone:
            shown = ", ".join(map(str, sorted(self.gone)[:8]))
            found.append(f"pid(s) {shown} ended while they were looked at")
        return found


def look(proc: Proc, wanted: Set[int], doubts: Doubts) -> Table:
    """Everybody's `stat` and title, and the variables of candidates. `wanted`: candidates whatever they are."""
    seen: dict[int, Seen] = {}
    for pid in proc.pids():
        try:
            stat = proc.stat(pid)
        except (NotAllowed, OSError):
            continue
        if stat is not None and stat.pid == pid and not stat.kernel_thread:
            seen[pid] = Seen(stat)
    living = [pid for pid, one in seen.items() if one.stat.state != "Z"]
    for pid, command in _patiently(living, proc.command, doubts, count_denied=False).items():
        seen[pid] = replace(seen[pid], command=command)
    for pid, one in seen.items():
        seen[pid] = replace(one, known=titles.recognise(one.command, one.stat.comm))
    table = Table(seen)
    return closely(proc, table, candidates(table) | wanted, doubts)


def candidates(table: Table) -> set[int]:
    """Who may belong to an instance: known titles, Python, what a job's launcher has started, and parents of titled
    ones, whose variables stand for those that a title has overwritten."""
    found: set[int] = set()
    for pid, seen in table.processes.items():
        titled = seen.known is not None and seen.known.engine
        if titled or (seen.command and _PROGRAMS.fullmatch(seen.command[0])) or seen.stat.comm in _STARTERS:
            found.add(pid)
        if titled and seen.stat.parent in table:
            found.add(seen.stat.parent)
    starters = {pid for pid in found if table[pid].stat.comm in _STARTERS or _launches(table[pid])}
    children = table.children()
    waiting = list(starters)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in starters:
                starters.add(child)
                waiting.append(child)
    return found | starters


def _launches(seen: Seen) -> bool:
    return seen.known is not None and seen.known.role is Role.LAUNCHER


def closely(proc: Proc, table: Table, pids: Iterable[int], doubts: Doubts) -> Table:
    """The table with what can be known of these processes."""
    seen = dict(table.processes)
    chosen = [pid for pid in sorted(pids) if pid in seen]
    with_ray = any(one.stat.comm == "raylet" or "".join(one.command[:1]).startswith("ray::") for one in seen.values())
    for pid in chosen:
        seen[pid] = _openly(proc, seen[pid], with_ray=with_ray)
    living = [pid for pid in chosen if seen[pid].stat.state != "Z" and pid not in doubts.stuck]
    owners = {pid: seen[pid].uid for pid in living}
    for pid, environ in _patiently(living, proc.environ, doubts, owners=owners).items():
        seen[pid] = replace(seen[pid], environ=environ)
    return Table(seen)


def _openly(proc: Proc, seen: Seen, *, with_ray: bool) -> Seen:
    """What takes no lock of the process's."""
    pid = seen.pid
    status = _allowed(lambda: proc.status(pid))
    cgroup = (_allowed(lambda: proc.read(pid, "cgroup", 65536)) or b"").decode("utf-8", "replace")
    pod, container, unit = cgroup_names(cgroup)
    worker = bool(seen.command) and seen.command[0].startswith("ray::")
    drives = seen.known is not None and seen.known.role in (Role.SERVER, Role.ENGINE)
    return replace(
        seen,
        uid=status.uid if status is not None else None,
        pids=status.pids if status is not None else (),
        pod=pod,
        container=container,
        unit=unit,
        network=_allowed(lambda: proc.link(pid, "ns/net")),
        ray_job=ray.job(proc, pid, worker=worker) if worker or (with_ray and drives) else None,
    )


def cgroup_names(cgroup: str) -> tuple[str | None, str | None, str | None]:
    """(pod's UID, container's id, systemd unit) that the text of `cgroup` names."""
    pod, container, units = _POD.search(cgroup), _CONTAINER.search(cgroup), _UNIT.findall(cgroup)
    return (
        pod[1].replace("_", "-") if pod else None,
        container[0] if container else None,
        units[-1] if units else None,
    )


def _allowed(ask: Callable[[], _T | None]) -> _T | None:
    try:
        return ask()
    except (NotAllowed, OSError):
        return None


def _patiently(
    pids: list[int],
    read: Callable[[int], _T | None],
    doubts: Doubts,
    *,
    owners: Mapping[int, int | None] | None = None,
    count_denied: bool = True,
) -> dict[int, _T]:
    def work(pid: int) -> _T | NotAllowed | None:
        try:
            return read(pid)
        except (NotAllowed, OSError) as error:
            return error if isinstance(error, NotAllowed) else None

    done = each(pids, work, patience=PATIENCE, total=TOTAL)
    doubts.stuck.update(done.stuck)
    doubts.unread = max(doubts.unread, len(done.skipped))
    found: dict[int, _T] = {}
    for pid, result in done.results:
        if isinstance(result, NotAllowed):
            if count_denied:
                doubts.denied.setdefault((owners or {}).get(pid) or 0, set()).add(pid)
        elif result is None:
            doubts.gone.add(pid)
        else:
            found[pid] = result
    return found
