"""RAS polls in the terms of global ranks: counts per communicator over time, and who answered whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.memo import once
from rankmuster.model.ras import RasCommunicator, RasMissingRank, RasPoll, RasRank


@dataclass(frozen=True, slots=True)
class CountLook:
    """Counts of one communicator at one look: operation -> global rank -> launched operations.

    Empty counts: a text reply that lists no difference, so that all ranks stood at the same, unknown counts.
    `missing`: global ranks of the communicator of which this reply has no data.
    """

    time: float
    source: str
    counts: Mapping[str, Mapping[int, int]]
    missing: frozenset[int] = frozenset()

    @property
    def differing_operations(self) -> frozenset[str]:
        """Operations whose counts differ between ranks."""
        return frozenset(op for op, counts in self.counts.items() if len(set(counts.values())) > 1)

    @property
    def differing(self) -> bool:
        """Whether any operation's counts differ between ranks."""
        return bool(self.differing_operations)

    @property
    def ranks(self) -> frozenset[int]:
        """The ranks with a count."""
        return frozenset(rank for counts in self.counts.values() for rank in counts)


def moved(before: CountLook, after: CountLook) -> str | None:
    """What moved between two looks, None for nothing: a count that grew, or an operation that differs at one look only.

    Text replies list only operations that differ between ranks: what both looks list is compared.
    """
    for op, counts in after.counts.items():
        earlier = before.counts.get(op)
        if earlier is None:
            continue
        for rank, count in counts.items():
            if rank in earlier and count != earlier[rank]:
                return f"{op} of rank {rank}: {earlier[rank]} to {count}"
    changed = sorted(before.differing_operations ^ after.differing_operations)
    return f"{changed[0]} differs between ranks at one of them only" if changed else None


def rank_of(context: Context, entry: RasRank | RasMissingRank, comm: RasCommunicator) -> int | None:
    """The global rank of an entry: by process, else by number in a communicator as large as the world."""
    found = context.roster.of_process(entry.host, entry.pid)
    if found is not None:
        return found
    return entry.rank if comm.size is not None and comm.size == context.roster.world_size else None


@once
def looks_per_communicator(context: Context) -> dict[int, list[CountLook]]:
    """Looks in order of time per communicator hash. Text replies give complete counts where they list who is apart."""
    members: dict[int, dict[int, int]] = defaultdict(dict)  # hash -> local rank -> global rank
    for poll in context.polls:
        for comm in poll.communicators:
            entries: list[RasRank | RasMissingRank] = [*comm.ranks, *comm.missing]
            for entry in entries:
                found = rank_of(context, entry, comm)
                if found is not None:
                    members[comm.hash][entry.rank] = found
    result: dict[int, list[CountLook]] = defaultdict(list)
    for poll in context.polls:
        time = context.time(poll.time)
        told: set[int] = set()
        for comm in poll.communicators:
            if poll.truncated and poll.form == "json":
                # The rank at the cut has some of its counts only, which looks like having launched less.
                continue
            counts = _json_counts(context, comm) or _text_counts(comm, members[comm.hash], context.roster.world_size)
            if counts:
                told.add(comm.hash)
                gone = frozenset(members[comm.hash][e.rank] for e in comm.missing if e.rank in members[comm.hash])
                result[comm.hash].append(CountLook(_moment(time, result[comm.hash]), poll.source, counts, gone))
        if poll.form == "text" and poll.groups and not poll.truncated:
            listed = {comm.hash for comm in poll.communicators}
            for key, looks in result.items():
                if key not in told and key not in listed:
                    looks.append(CountLook(_moment(time, looks), poll.source, {}))
    return result


def _moment(time: float | None, looks: list[CountLook]) -> float:
    """The look's time, or its place in the order where no time is known."""
    return time if time is not None else float(len(looks))


def _json_counts(context: Context, comm: RasCommunicator) -> dict[str, dict[int, int]]:
    counts: dict[str, dict[int, int]] = defaultdict(dict)
    if comm.majorities or not comm.ranks:
        return {}
    for entry in comm.ranks:
        found = rank_of(context, entry, comm)
        if found is None or not entry.counts:
            return {}
        for op, count in entry.counts.items():
            counts[op][found] = count
    return counts


def _text_counts(comm: RasCommunicator, members: Mapping[int, int], world: int | None) -> dict[str, dict[int, int]]:
    """Outliers by name, everybody else at the one majority's count; unclear where two camps are unnamed."""
    if not comm.majorities and not any(entry.counts for entry in comm.ranks):
        return {}
    everybody = dict(members)
    if comm.size is not None and comm.size == world:
        everybody = {rank: members.get(rank, rank) for rank in range(comm.size)}
    counts: dict[str, dict[int, int]] = {}
    operations = set(comm.majorities) | {op for entry in comm.ranks for op in entry.counts}
    for op in sorted(operations):
        named = {
            everybody[entry.rank]: entry.counts[op]
            for entry in comm.ranks
            if op in entry.counts and entry.rank in everybody
        }
        unnamed = [
            camp for camp in comm.majorities.get(op, ()) if camp.ranks > sum(c == camp.count for c in named.values())
        ]
        rest = [rank for rank in everybody.values() if rank not in named]
        if len(unnamed) == 1 and len(rest) >= 1:
            named.update(dict.fromkeys(rest, unnamed[0].count))
        if len(named) > 1:
            counts[op] = named
    return counts


@dataclass(frozen=True, slots=True)
class Absence:
    """What one poll said of who is there. `answered`, `missing`: global ranks. `dead`: given up for good."""

    time: float | None
    source: str
    node: str | None
    answered: frozenset[int]
    missing: frozenset[int]
    unresponsive: frozenset[int]  # their process did not answer (not: answered without this communicator)
    dead: frozenset[int]
    timeouts: int


@once
def absences(context: Context) -> list[Absence]:
    """Every answered poll that shows a job, in order of time."""
    found = []
    for poll in context.polls:
        if not poll.answered or not (poll.communicators or poll.missing_processes or poll.groups):
            continue
        found.append(_absence(context, poll))
    return found


def _absence(context: Context, poll: RasPoll) -> Absence:
    answered: set[int] = set()
    missing: set[int] = set()
    unresponsive: set[int] = set()
    dead: set[int] = set()
    for comm in poll.communicators:
        for entry in comm.ranks:
            found = rank_of(context, entry, comm)
            if found is not None:
                answered.add(found)
        for gone in comm.missing:
            found = rank_of(context, gone, comm)
            if found is None:
                continue
            missing.add(found)
            if gone.unresponsive is not False:
                unresponsive.add(found)
            if gone.considered_dead:
                dead.add(found)
    for process in (*poll.missing_processes, *poll.dead_processes):
        found = context.roster.of_process(process.host, process.pid)
        if found is not None:
            missing.add(found)
            unresponsive.add(found)
    for process in poll.dead_processes:
        found = context.roster.of_process(process.host, process.pid)
        if found is not None:
            dead.add(found)
    if not dead and len(poll.dead_processes) == len(unresponsive):
        # Text replies list the dead by process and the missing by rank: as many of each are the same.
        dead = set(unresponsive)
    if poll.form == "text" and not poll.truncated:
        answered |= set(context.world) - missing
    return Absence(
        context.time(poll.time),
        poll.source,
        poll.node,
        frozenset(answered - missing),
        frozenset(missing),
        frozenset(unresponsive),
        frozenset(dead),
        poll.timeouts,
    )
