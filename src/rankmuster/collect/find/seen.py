"""One process as it was seen, and the table of them all. Frozen; what could not be read is None or empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rankmuster.collect.find.titles import Known
from rankmuster.collect.proc_text import Stat

INSTANCE, DEPLOYMENT, INCARNATION = "RANKMUSTER_INSTANCE", "RANKMUSTER_DEPLOYMENT", "RANKMUSTER_INCARNATION"
"""Our own markers: set by whoever starts the instance, they outrank every guess."""

MARKERS = (INSTANCE, DEPLOYMENT, INCARNATION)
"""A sidecar has them too; a child of ours that inherits them would be found as one more process of the instance."""


@dataclass(frozen=True, slots=True)
class Seen:
    """`environ`: the process's own, empty where a title was written over it. `container`: its cgroup's id, `pod`: the
    pod's UID, `ray_job`: session and job that Ray runs it for. `network`: the inode of its network namespace."""

    stat: Stat
    command: tuple[str, ...] = ()
    known: Known | None = None
    uid: int | None = None
    pids: tuple[int, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    container: str | None = None
    pod: str | None = None
    unit: str | None = None
    network: str | None = None
    ray_job: tuple[str, str] | None = None

    @property
    def pid(self) -> int:
        """As our /proc numbers it."""
        return self.stat.pid

    @property
    def marker(self) -> str | None:
        """The instance that whoever started it says it belongs to."""
        return self.environ.get(INSTANCE) or None


@dataclass(frozen=True, slots=True)
class Table:
    """All processes by pid."""

    processes: Mapping[int, Seen]

    def __getitem__(self, pid: int) -> Seen:
        return self.processes[pid]

    def __contains__(self, pid: int) -> bool:
        return pid in self.processes

    def ancestors(self, pid: int) -> Iterator[int]:
        """Parent, grandparent and so on; ends at what is not listed, and in a circle that hostile content makes."""
        walked = {pid}
        at = self.processes[pid].stat.parent if pid in self.processes else 0
        while at in self.processes and at not in walked:
            walked.add(at)
            yield at
            at = self.processes[at].stat.parent

    def children(self) -> dict[int, list[int]]:
        """Children by parent."""
        found: dict[int, list[int]] = {}
        for pid, seen in self.processes.items():
            found.setdefault(seen.stat.parent, []).append(pid)
        return found
