"""Sorts a node's processes into instances. Pure: a table in, sets of pids out.

Two processes belong together when one is the other's ancestor, or when they say so with the same words: our own marker,
a torchrun run, a rendezvous address, an MPI or Slurm step, a Ray job. Different markers keep apart what anything else
would join. Whatever the members started belongs to them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from rankmuster.collect.find import options, titles
from rankmuster.collect.find.ranks import from_environ
from rankmuster.collect.find.seen import Seen, Table
from rankmuster.collect.target import Role

_BOUNDARIES = {
    "raylet", "slurmstepd", "systemd", "sshd", "init", "containerd-shim", "conmon", "dockerd", "kubelet",
    "tmux: server", "supervisord", "runc", "cron", "login", "screen",
}  # fmt: skip
"""Processes that start what has nothing to do with one another (by `comm`): no lineage leads through them."""

_LOOPBACK = ("localhost", "127.", "::1", "[::1]", "0.0.0.0")  # noqa: S104 - compared, never bound

Key = tuple[str, ...]


@dataclass
class _Unions:
    """Union-find over pids in which two different markers never meet."""

    parent: dict[int, int] = field(default_factory=dict)
    marker: dict[int, str] = field(default_factory=dict)

    def add(self, pid: int, marker: str | None) -> None:
        self.parent.setdefault(pid, pid)
        if marker is not None:
            self.marker[pid] = marker

    def root(self, pid: int) -> int:
        while self.parent[pid] != pid:
            self.parent[pid] = self.parent[self.parent[pid]]
            pid = self.parent[pid]
        return pid

    def join(self, one: int, other: int) -> None:
        a, b = self.root(one), self.root(other)
        if a == b:
            return
        mine, theirs = self.marker.get(a), self.marker.get(b)
        if mine is not None and theirs is not None and mine != theirs:
            return
        self.parent[b] = a
        if mine is None and theirs is not None:
            self.marker[a] = theirs


def boundary(seen: Seen) -> bool:
    """Whether lineage ends here."""
    return (seen.pid == 1 and seen.known is None) or seen.stat.comm.startswith(tuple(_BOUNDARIES))


def is_member(seen: Seen) -> bool:
    """Whether a process by its own words is part of an instance, or launches one."""
    if seen.known is not None and seen.known.engine:
        return True
    if titles.is_wrapper(seen.command, seen.stat.comm):
        return False
    return seen.marker is not None or (bool(seen.environ) and from_environ(seen.environ) is not None)


def keys(seen: Seen) -> list[Key]:
    """What processes of one instance say alike."""
    environ = seen.environ
    found: list[Key] = []
    if seen.marker is not None:
        found.append(("own", seen.marker, environ.get("RANKMUSTER_INCARNATION", "")))
    place = None if titles.is_wrapper(seen.command, seen.stat.comm) else from_environ(environ)
    own_words = seen.known is not None and seen.known.role is not Role.WORKER and seen.known.engine != titles.TORCH
    if place is not None and not own_words:
        found.extend(_of_launcher(seen, place.source, place.world or 0))
    if seen.known is not None and seen.known.role in (Role.SERVER, Role.ENGINE):
        address = options.rendezvous(seen.command)
        if address is not None:
            found.append(("address", seen.known.engine, address, _scope(address, seen)))
    if seen.ray_job is not None and seen.known is not None:
        found.append(("ray", *seen.ray_job))
    return found


def _of_launcher(seen: Seen, source: str, world: int) -> Iterable[Key]:
    environ = seen.environ
    run = environ.get("TORCHELASTIC_RUN_ID", "none")
    address, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    if source == "torch" and run != "none":
        yield ("elastic", run, address, port, _scope(address, seen))
    elif source == "torch" and port:
        yield ("master", address, port, str(world), _scope(address, seen))
    step = environ.get("SLURM_STEP_ID", "")
    if source == "slurm":
        yield ("slurm", environ.get("SLURM_JOB_ID", ""), step)
    if source in ("mpi", "pmi"):
        job = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid") or environ.get("PMI_ID")
        if job is not None:
            yield ("mpi", job)
        elif step.isdigit():
            yield ("slurm", environ.get("SLURM_JOB_ID", ""), step)


def _scope(address: str, seen: Seen) -> str:
    """A loopback address means something else in every network namespace."""
    return seen.network or "" if not address or address.startswith(_LOOPBACK) else ""


def groups(table: Table, extra: Set[int] = frozenset(), left_out: Set[int] = frozenset()) -> list[frozenset[int]]:
    """The instances' processes, each set with everything that its members started.

    `extra`: pids that count as members whatever they say (asked for, or on a GPU). `left_out`: never members.
    """
    members = {p for p, seen in table.processes.items() if p not in left_out and (p in extra or is_member(seen))}
    members |= _programs(table, members, left_out)
    unions = _Unions()
    for pid in sorted(members):
        unions.add(pid, table[pid].marker)
    between: dict[int, int] = {}
    said: dict[Key, int] = {}
    for pid in sorted(members):
        _join_lineage(table, pid, members, left_out, unions, between)
    for pid in sorted(members):
        for key in keys(table[pid]):
            unions.join(said.setdefault(key, pid), pid)
    found: dict[int, set[int]] = {}
    for pid in members:
        found.setdefault(unions.root(pid), set()).add(pid)
    for pid, member in between.items():
        found[unions.root(member)].add(pid)
    taken = {pid for group in found.values() for pid in group} | set(left_out)
    children = table.children()
    for group in found.values():
        _add_descendants(group, children, taken, table)
    return [
        frozenset(group)
        for _, group in sorted(found.items())
        if any(pid in extra or _counts(table[pid]) for pid in group)
    ]


def _programs(table: Table, members: Set[int], left_out: Set[int]) -> set[int]:
    """Programs of one's own with an engine inside: titled processes are multiprocessing's children of one."""
    found: set[int] = set()
    for pid in members:
        known, parent = table[pid].known, table[pid].stat.parent
        if known is None or "::" not in known.name or known.name.startswith("ray::") or parent not in table:
            continue
        above = table[parent]
        python = bool(above.command) and titles.is_python(above.command[0])
        if python and parent not in members and parent not in left_out and not boundary(above):
            found.add(parent)
    return found


def _join_lineage(
    table: Table, pid: int, members: set[int], left_out: Set[int], unions: _Unions, between: dict[int, int]
) -> None:
    passed: list[int] = []
    for ancestor in table.ancestors(pid):
        if ancestor in members:
            mine, theirs = table[pid].marker, table[ancestor].marker
            if mine is None or theirs is None or mine == theirs:
                unions.join(ancestor, pid)
                between.update(dict.fromkeys(passed, pid))
            return
        if ancestor in left_out or boundary(table[ancestor]):
            return
        passed.append(ancestor)


def _add_descendants(group: set[int], children: dict[int, list[int]], taken: set[int], table: Table) -> None:
    waiting = list(group)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in taken and not table[child].stat.kernel_thread:
                taken.add(child)
                group.add(child)
                waiting.append(child)


def _counts(seen: Seen) -> bool:
    """Whether a process alone makes an instance: `srun` or `mpirun` whose ranks are all elsewhere does not."""
    if seen.known is not None and seen.known.engine and seen.known.engine != titles.MPI:
        return True
    return seen.marker is not None or (bool(seen.environ) and from_environ(seen.environ) is not None)
