"""Who is who: global ranks joined over planes by (host, pid), file names, GPU and pod (DESIGN, "Align")."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from rankmuster.diagnose.launcher_ranks import on_one_node
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.flight import FlightDump
from rankmuster.model.frameworklog import LineOrigin, LogSpan
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.job import Rank
from rankmuster.model.nccllog import InitPhase, LogOrigin, NcclInit, NcclInterface
from rankmuster.model.node import TaskState
from rankmuster.model.ras import RasMissingRank, RasPoll, RasRank

_ENDED = frozenset({TaskState.ZOMBIE, TaskState.DEAD, TaskState.GONE})


@dataclass(slots=True)
class Draft:
    """A rank while it is being put together."""

    rank: int
    host: str | None = None
    pid: int | None = None
    gpu: int | None = None
    gpu_uuid: str | None = None
    bus_id: str | None = None
    pod: str | None = None
    aliases: set[str] = field(default_factory=set)
    exit_code: int | None = None
    exited_at: float | None = None
    has_exit_facts: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Roster:
    """All ranks, and the ways to find one. `alias_hosts`: host name in a log -> address as RAS names it.

    `hosts`: ranks per host, for ranks whose host is known.
    """

    ranks: tuple[Rank, ...]
    world_size: int | None
    by_pid: dict[int, tuple[int, ...]]
    alias_hosts: dict[str, str]
    ranks_by_number: dict[int, Rank] = field(init=False, repr=False)
    hosts: dict[str, tuple[int, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks_by_number", {rank.rank: rank for rank in self.ranks})
        table: dict[str, list[int]] = defaultdict(list)
        for rank in self.ranks:
            if rank.host is not None:
                table[rank.host].append(rank.rank)
        object.__setattr__(self, "hosts", {host: tuple(ranks) for host, ranks in table.items()})

    @property
    def on_one_host(self) -> bool:
        """Whether all ranks are known to run on one host: NCCL uses no network there."""
        return len(self.hosts) == 1 and all(rank.host is not None for rank in self.ranks)

    def of_process(self, host: str | None, pid: int | None) -> int | None:
        """The global rank of a process. A pid that only one rank has needs no host; a shared one does."""
        if pid is None:
            return None
        candidates = self.by_pid.get(pid, ())
        if len(candidates) == 1:
            return candidates[0]
        wanted = self.host(host)
        matching = [rank for rank in candidates if self.ranks_by_number[rank].host == wanted]
        return matching[0] if len(matching) == 1 else None

    def writer(self, origin: LineOrigin | LogOrigin) -> int | None:
        """The global rank that wrote a line: the one it names, else that of its process."""
        return origin.rank if origin.rank is not None else self.of_process(origin.host, origin.pid)

    def host(self, name: str | None) -> str | None:
        """The address for a host's name, or the name itself."""
        return self.alias_hosts.get(name, name) if name is not None else None


def bus_id_of(text: str | None) -> str | None:
    """NCCL's `busId 1b000` as 0000:1b:00; None where it is no such number.

    NCCL packs domain, bus, device and function as hex digits (utils.cc, busIdToInt64): dddd bb dd f.
    """
    if not text:
        return None
    try:
        value = int(text, 16)
    except ValueError:
        return None
    if not 0 <= value < 1 << 48:
        return None
    return f"{(value >> 20) & 0xFFFFFFFF:04x}:{(value >> 12) & 0xFF:02x}:{(value >> 4) & 0xFF:02x}"


def build(evidence: Evidence, dumps: Iterable[FlightDump], facts: InstanceFacts | None) -> Roster:
    """Joins what the supervisor, dumps, NCCL's init lines, RAS and log names say of each rank."""
    drafts: dict[int, Draft] = {}

    def draft(number: int) -> Draft:
        return drafts.setdefault(number, Draft(number))

    for process in facts.processes if facts else ():
        d = draft(process.rank)
        d.host, d.pid, d.gpu = process.host, process.pid, process.gpu
        d.gpu_uuid, d.bus_id, d.pod = process.gpu_uuid, process.bus_id, process.pod
        d.exit_code, d.exited_at, d.has_exit_facts = process.exit_code, process.exited_at, True
        d.gone = process.state in _ENDED
    groups: dict[int, tuple[int, ...]] = {}
    dump_hosts: dict[int, str] = {}
    for dump in dumps:
        if dump.rank is not None:
            draft(dump.rank)
            if dump.host is not None:
                dump_hosts[dump.rank] = dump.host
        groups.update((id(group.members), group.members) for group in dump.columns.groups if group.members)
    # Each group stands in as many dumps as it has members, mostly as one object: one look at each is enough.
    for member in {member for members in groups.values() for member in members}:
        draft(member)
    spans = evidence.of(LogSpan)
    for span in spans:
        if span.rank is not None:
            draft(span.rank)

    inits = [line for line in evidence.of(NcclInit) if line.phase in (InitPhase.START, InitPhase.COMPLETE)]
    polls = [poll for poll in evidence.of(RasPoll) if not poll.corrupt]
    _from_launchers(evidence, facts, drafts, others=bool(inits or any(poll.answered for poll in polls)))
    world = _world_size(facts, inits, polls, drafts)
    aliases = _aliases(evidence, facts, polls)
    for number in range(world or 0) if world is not None and world <= 65536 else ():
        draft(number)

    local = facts is not None and facts.gpus_of_nodes
    numbers = {} if not local else {rank: d.gpu for rank, d in drafts.items()}
    _from_inits(inits, world, drafts, aliases)
    _from_ras(polls, world, drafts)
    if local:  # NCCL in a pod counts the pod's GPUs
        for d in drafts.values():
            d.gpu = numbers.get(d.rank)
    _from_supervisor_names(drafts, aliases)
    _from_dumps(dump_hosts, drafts)
    by_pid: dict[int, list[int]] = defaultdict(list)
    for d in drafts.values():
        if d.pid is not None:
            by_pid[d.pid].append(d.rank)
    ranks = tuple(
        Rank(
            d.rank,
            d.host,
            d.pid,
            d.gpu,
            d.gpu_uuid,
            d.bus_id,
            d.pod,
            tuple(sorted(d.aliases)),
            d.exit_code,
            d.exited_at,
            d.has_exit_facts,
            d.gone,
        )
        for d in sorted(drafts.values(), key=lambda d: d.rank)
    )
    return Roster(ranks, world, {pid: tuple(sorted(found)) for pid, found in by_pid.items()}, aliases)


def _world_size(
    facts: InstanceFacts | None, inits: list[NcclInit], polls: list[RasPoll], drafts: dict[int, Draft]
) -> int | None:
    if facts and facts.world_size:
        return facts.world_size
    # A supervisor may list only what still runs: no communicator is larger than the world.
    listed = [process.rank + 1 for process in facts.processes] if facts else []
    sizes = [line.nranks for line in inits]
    sizes += [comm.size or 0 for poll in polls for comm in poll.communicators]
    sizes.append(max(drafts, default=-1) + 1)
    return max([*sizes, *listed], default=0) or None


def _aliases(evidence: Evidence, facts: InstanceFacts | None, polls: list[RasPoll]) -> dict[str, str]:
    """Log host name -> address, where a process or its bootstrap interface ties the two."""
    address_of_pid: dict[int, set[str]] = defaultdict(set)
    for process in facts.processes if facts else ():
        if process.pid is not None and process.host:
            address_of_pid[process.pid].add(process.host)
    for poll in polls:
        for comm in poll.communicators:
            entries: list[RasRank | RasMissingRank] = [*comm.ranks, *comm.missing]
            for rank in entries:
                if rank.pid is not None and rank.host:
                    address_of_pid[rank.pid].add(rank.host)
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    addresses = {address for found in address_of_pid.values() for address in found}
    for line in evidence.of(NcclInterface):
        if line.role != "bootstrap" or line.origin.host is None:
            continue
        for _, address in line.interfaces:
            if address in addresses:
                votes[line.origin.host][address] += 1
    for init in evidence.of(NcclInit):
        found = address_of_pid.get(init.origin.pid or -1, set())
        if init.origin.host is not None and len(found) == 1 and init.origin.host not in found:
            votes[init.origin.host].update(found)
    # One host name for two addresses is a container or namespace detail: it names neither.
    return {name: next(iter(seen)) for name, seen in votes.items() if len(seen) == 1}


def _from_launchers(evidence: Evidence, facts: InstanceFacts | None, drafts: dict[int, Draft], others: bool) -> None:
    """Processes that a launcher names by local rank, where they are on one node."""
    hosts = {d.host for d in drafts.values() if d.host}
    for launched in on_one_node(evidence, facts, tuple(drafts), hosts, others):
        d = drafts.setdefault(launched.rank, Draft(launched.rank))
        if d.pid is None:
            d.pid, d.host = launched.pid, d.host or launched.host


def _from_inits(inits: list[NcclInit], world: int | None, drafts: dict[int, Draft], aliases: dict[str, str]) -> None:
    """NCCL's ranks are communicator-local: only a communicator as large as the world numbers ranks globally."""
    known: dict[int, list[Draft]] = defaultdict(list)
    for d in drafts.values():
        if d.pid is not None:
            known[d.pid].append(d)
    writers = {line.origin.host for line in inits}
    told = {d.host for d in drafts.values()}
    for line in inits:
        pid, host = line.origin.pid, line.origin.host
        near = [d for d in known.get(pid if pid is not None else -1, ()) if _may_be(d, host, aliases, writers, told)]
        found = near[0] if len(near) == 1 else None
        if found is None and line.nranks == world and len(near) < 2:
            found = drafts.setdefault(line.rank, Draft(line.rank))
            if found.pid is not None and found.pid != pid:
                continue
            found.pid = pid
            found.host = found.host or aliases.get(host or "", host)
        if found is None:
            continue
        if host:
            found.aliases.add(host)
        if found.gpu is None:
            found.gpu = line.nvml_dev if line.nvml_dev is not None else line.cuda_dev
        found.bus_id = found.bus_id or bus_id_of(line.bus_id)


def _may_be(
    draft: Draft, host: str | None, aliases: Mapping[str, str], writers: set[str | None], told: set[str | None]
) -> bool:
    """Whether a line of `host` can be of this rank, whose pid it has: each pod counts its processes from 1.

    NCCL writes one name for a host, and the supervisor too: where one of them knows both names, they are two hosts.
    """
    if host is None or draft.host is None or aliases.get(host, host) == aliases.get(draft.host, draft.host):
        return True
    return not (draft.host in writers or host in told)


def _from_ras(polls: list[RasPoll], world: int | None, drafts: dict[int, Draft]) -> None:
    known = {(d.host, d.pid) for d in drafts.values()}
    for poll in polls:
        for comm in poll.communicators:
            if comm.size != world:
                continue
            entries: list[RasRank | RasMissingRank] = [*comm.ranks, *comm.missing]
            for rank in entries:
                if rank.pid is None or (rank.host, rank.pid) in known:
                    continue
                d = drafts.setdefault(rank.rank, Draft(rank.rank))
                if d.pid is None:
                    d.host, d.pid = rank.host, rank.pid
                    if d.gpu is None:
                        d.gpu = rank.nvml_dev if rank.nvml_dev is not None else rank.cuda_dev
                elif d.pid == rank.pid and rank.host and d.host != rank.host:
                    if d.host:
                        d.aliases.add(d.host)
                    d.host = rank.host


def _from_supervisor_names(drafts: dict[int, Draft], aliases: dict[str, str]) -> None:
    for d in drafts.values():
        if d.host in aliases and aliases[d.host] != d.host:
            d.aliases.add(d.host)
            d.host = aliases[d.host]


def _from_dumps(hosts: Mapping[int, str], drafts: dict[int, Draft]) -> None:
    """Hosts as dumps name them, where nothing else names any: a node's two names would look like two nodes."""
    if any(d.host is not None for d in drafts.values()):
        return
    for rank, host in hosts.items():
        drafts[rank].host = host


def with_rank(dump: FlightDump, rank: int) -> FlightDump:
    """The dump with its rank filled in."""
    return replace(dump, rank=rank)
