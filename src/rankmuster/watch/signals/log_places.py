"""Which files an instance's processes write their output and NCCL's log to, as far as they can be followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from rankmuster.collect.bounded import each
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.table import cgroup_names
from rankmuster.collect.logs import keepers, nccl_files
from rankmuster.collect.logs.outputs import elsewhere, outputs
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import ProcessOfInstance, Role, Target

PATIENCE = 1.0
"""Seconds for the looks at one process's settings and folder."""

_KEPT = re.compile(r"(\d{1,6})\.log")
_QUIET = ("", "NONE", "VERSION")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to follow. `own`: nothing but this process's words is in it, so that one found late is read from its
    start. `still`: of a descriptor, whether its process is the one that was meant."""

    source: Source
    own: bool = False
    still: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class Places:
    """`wanted`: likeliest first. `blind`: why there is nothing to follow, one sentence, None where there is, or where
    another plane's signal has it. `stuck`: what did not let itself be looked at in time."""

    wanted: tuple[Wanted, ...] = ()
    blind: str | None = None
    stuck: tuple[str, ...] = ()


class Finder(Protocol):
    """Looks for files; opens none. Bounded by the deadline, raises nothing for what processes do."""

    def __call__(self, target: Target, machine: Machine, deadline: Deadline) -> Places: ...


@dataclass(frozen=True, slots=True)
class OutputFinder:
    """Of the processes' own output. `files`: further ones that the configuration names, as seen from here.

    `var_log`: where the node keeps its pods' logs; `docker`: its containers' folders, of docker without Kubernetes.
    """

    files: Sequence[Path] = ()
    var_log: Path = Path("/var/log")
    docker: Path = Path("/var/lib/docker/containers")

    def __call__(self, target: Target, machine: Machine, deadline: Deadline) -> Places:
        """Files that are open as 1 or 2, launchers' and Ray's folders, then what the container runtime keeps."""
        found = outputs(target, machine, deadline)
        ticks = {process.pid: process.start_ticks for process in target.processes}
        proc = Proc(machine.proc)
        wanted = [Wanted(Source(Path("/"), str(path), path.name)) for path in self.files]
        for source in found.sources:
            if source.named == "error.json":
                continue
            pid = int(source.path.partition("/")[0]) if source.descriptor else None
            still = partial(_lives, proc, pid, ticks[pid]) if pid is not None and pid in ticks else _always
            wanted.append(Wanted(source, still=still))
        done = each([0], lambda _: self._kept(target, proc), patience=PATIENCE, total=deadline.remaining())
        for _, kept in done.results:
            wanted.extend(Wanted(source) for source in kept)
        blind = None if wanted else _nowhere(target, elsewhere(found), piped=found.piped, journal=found.journal)
        return Places(tuple(wanted), blind, tuple(found.stuck))

    def _kept(self, target: Target, proc: Proc) -> list[Source]:
        """The newest log of each container of the pods, and docker's own file of each container."""
        pods, _ = keepers.owners(proc, target.processes)
        newest: dict[str, tuple[int, Source]] = {}
        for source in keepers.pod_logs(self.var_log, pods):
            folder, _, name = source.path.rpartition("/")
            number = _KEPT.fullmatch(name)
            if number and int(number[1]) >= newest.get(folder, (-1, source))[0]:
                newest[folder] = (int(number[1]), source)
        found = [source for _, source in newest.values()]
        for container in _containers(proc, target.processes):
            name = f"{container}-json.log"
            if (self.docker / container / name).is_file():
                found.append(Source(self.docker, f"/{container}/{name}", f"container-{container[:12]}.log"))
        return found


class NcclFinder:
    """Of NCCL's own log, where NCCL_DEBUG_FILE gives it one."""

    def __call__(self, target: Target, machine: Machine, deadline: Deadline) -> Places:
        """The file of each process that uses NCCL; those that do not exist yet where their names are known."""
        users = [one for one in target.processes if one in target.workers or one.role is Role.ENGINE]

        def look(process: ProcessOfInstance) -> tuple[str, str, list[Wanted]]:
            given = nccl_files.settings(process)
            pattern, level = given.get("NCCL_DEBUG_FILE", ""), given.get("NCCL_DEBUG", "")
            if (
                not pattern
                or pattern in nccl_files.STANDARD
                or len(pattern) > nccl_files.MAX_PATTERN
                or "\0" in pattern
            ):
                return level, "", []
            hosts = [host for host in (process.environ.get("HOSTNAME", ""), machine.hostname, target.host) if host]
            _, looks = nccl_files.expansion(nccl_files.absolute(process, pattern), process.inner_pid)
            sources = nccl_files.sources(process, pattern, hosts)
            names = [(source, looks.fullmatch(source.path.rpartition("/")[2])) for source in sources]
            current = [source for source, match in names if match and not match["rotated"] and not source.packed]
            return level, pattern, [Wanted(source, own="%p" in pattern) for source in current]

        done = each(users, look, patience=PATIENCE, total=deadline.remaining())
        told = [result for _, result in done.results]
        wanted = tuple(one for _, _, found in told for one in found)
        stuck = tuple(f"pid {process.pid}" for process in done.stuck)
        return Places(wanted, None if wanted else _quiet(told), stuck)


def _quiet(told: Sequence[tuple[str, str, list[Wanted]]]) -> str | None:
    level = next((level for level, _, _ in told if level), "")
    if level.upper() in _QUIET:
        return f"NCCL_DEBUG is {level or 'not set'}, so NCCL logs nothing; WARN costs nothing and tells errors"
    pattern = next((pattern for _, pattern, _ in told if pattern), "")
    if pattern:
        return f"NCCL_DEBUG_FILE={pattern[:200]} names files that do not exist (yet): no NCCL was started"
    return None  # it goes to the processes' own output, and is heard there


def _nowhere(target: Target, ends: str, *, piped: bool, journal: bool) -> str:
    if not ends:
        return f"no process of {target.name} has an output that can be looked at (another user's? run as root)"
    reader = "the launcher's or scheduler's own file" if piped else "the file that the session is logged to"
    if journal:
        reader = "a file (systemd: StandardError=append:PATH)"
    return f"the output of {target.name} goes to {ends}, which only one can read; name {reader} in logs.files"


def _lives(proc: Proc, pid: int, start_ticks: int) -> bool:
    try:
        stat = proc.stat(pid)
    except (NotAllowed, OSError):
        return False
    return stat is not None and stat.start_ticks == start_ticks


def _always() -> bool:
    return True


def _containers(proc: Proc, processes: Iterable[ProcessOfInstance]) -> list[str]:
    found: dict[str, None] = {}
    for process in processes:
        try:
            cgroup = proc.read(process.pid, "cgroup", 65536) or b""
        except (NotAllowed, OSError):
            continue
        _, container, _ = cgroup_names(cgroup.decode("utf-8", "replace"))
        if container is not None:
            found[container] = None
    return list(found)
