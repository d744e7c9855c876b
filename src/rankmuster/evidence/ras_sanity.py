"""Whether a RAS reply may be believed at all.

NCCL 2.26.2 to 2.28.9 walk the collected data wrongly when a job has several communicators and some ranks are missing
(NVIDIA/nccl#1762, fixed in 2.29.2): from there on the report is made of whatever lies in memory, so one impossible
number speaks against the whole reply. Bounds here are such that no sound reply can exceed them: the job summary counts
dead and missing processes too, and a communicator's size counts its missing ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.ras import RasCommunicator, RasGroup, RasMissingRank, RasPoll, RasProcess, RasRank

MAX_RANKS = 1 << 20
"""Ranks of one communicator; ten times the largest known jobs (about 100 000 GPUs)."""

MAX_OPERATIONS = 1 << 48
"""Launches of one operation; a million a second for nine years."""

MAX_GPUS_PER_PROCESS = 16
"""GPUs of one process where the summary does not say; the largest single-host boards have 16."""

MAX_REASONS = 8
"""Reasons that are spelled out; one is enough to disbelieve, garbage can yield thousands."""

_NOWHERE = ("0.0.0.0", "::")  # noqa: S104 - addresses that are compared, never bound
_ADDRESS_FAMILIES = (2, 10)  # AF_INET and AF_INET6 on Linux


def corruption(poll: RasPoll) -> tuple[str, ...]:
    """Why nothing in `poll` may be believed; empty for a sound reply."""
    reasons: list[str] = []
    for reason in _all_reasons(poll):
        if len(reasons) == MAX_REASONS:
            reasons.append("and more of the kind")
            break
        reasons.append(reason)
    return tuple(reasons)


def is_bogus_zero(communicator_hash: int | None, size: int | None) -> bool:
    """An empty entry that NCCL lists while communicators come and go (NVIDIA/nccl#2346): harmless, says nothing."""
    return communicator_hash == 0 and size == 0


def _all_reasons(poll: RasPoll) -> Iterator[str]:
    yield from _job_reasons(poll)
    for group in poll.groups:
        yield from _group_reasons(group)
    limit = _most_ranks(poll)
    for communicator in poll.communicators:
        name = f"communicator {communicator.hash:016x}"
        for reason in _communicator_reasons(communicator, limit):
            yield f"{name}: {reason}"


def _most_ranks(poll: RasPoll) -> int | None:
    if poll.gpus_total:
        return max(poll.gpus_total, poll.processes_total or 0)
    if poll.processes_total:
        return poll.processes_total * MAX_GPUS_PER_PROCESS
    return None


def _job_reasons(poll: RasPoll) -> Iterator[str]:
    gone = poll.missing_process_count + poll.dead_process_count
    if poll.processes_total and gone > poll.processes_total:
        yield f"{gone} processes missing or dead of a job of {poll.processes_total}"
    for process in (*poll.missing_processes, *poll.dead_processes):
        if _is_nobody(process.host, process.pid):
            yield _nobody(process)


def _group_reasons(group: RasGroup) -> Iterator[str]:
    size, members = group.ranks_per_communicator, group.communicators
    if not 0 <= size <= MAX_RANKS or members < 0 or group.ranks_in_group < 0:
        yield f"group {group.index}: {members} communicators of {size} ranks, {group.ranks_in_group} in the group"
    elif group.ranks_in_group > size * members:
        yield f"group {group.index}: {group.ranks_in_group} ranks in {members} communicators of {size}"
    elif size == 0 and "INCOMPLETE" in group.errors:
        yield f"group {group.index}: communicators of 0 ranks that miss some"


def _communicator_reasons(communicator: RasCommunicator, job_ranks: int | None) -> Iterator[str]:
    size = communicator.size
    if _is_address(communicator.hash):
        yield "its hash is a socket address"
    if size is not None and not 0 <= size <= MAX_RANKS:
        yield f"a size of {size}"
        size = None
    if size is not None and communicator.missing_count > size:
        yield f"{communicator.missing_count} missing ranks of {size}"
    elif job_ranks is not None and communicator.missing_count > job_ranks:
        yield f"{communicator.missing_count} missing ranks in a job of at most {job_ranks}"
    yield from _rank_reasons(communicator, size)
    yield from _count_reasons(communicator, size)


def _rank_reasons(communicator: RasCommunicator, size: int | None) -> Iterator[str]:
    bound = size if size else MAX_RANKS
    members: tuple[RasRank | RasMissingRank, ...] = (*communicator.ranks, *communicator.missing)
    for member in members:
        if not 0 <= member.rank < bound:
            yield f"rank {member.rank}" + (f" of {size}" if size else "")
        if _is_nobody(member.host, member.pid):
            yield _nobody(RasProcess(member.host, member.pid))


def _count_reasons(communicator: RasCommunicator, size: int | None) -> Iterator[str]:
    unnamed = communicator.majorities
    for operation, majorities in unnamed.items():
        named = sum(1 for rank in communicator.ranks if operation in rank.counts)
        told = named + sum(m.ranks for m in majorities)
        if size and told > size:
            yield f"{operation} counts of {told} ranks out of {size}"
    for rank in communicator.ranks:
        for operation, count in rank.counts.items():
            if not 0 <= count <= MAX_OPERATIONS:
                yield f"rank {rank.rank} launched {count} {operation}"
    for operation, majorities in unnamed.items():
        for majority in majorities:
            if not 0 <= majority.count <= MAX_OPERATIONS:
                yield f"{majority.ranks} ranks launched {majority.count} {operation}"


def _is_address(communicator_hash: int) -> bool:
    # What stands in place of the hash is a missing rank's record: its rank (32 bits), then the family and port of its
    # address, as in b3d5000200000001. A random hash looks like that once in 2^27.
    family = communicator_hash >> 32 & 0xFFFF
    return family in _ADDRESS_FAMILIES and communicator_hash & 0xFFFFFFFF < MAX_RANKS


def _is_nobody(host: str | None, pid: int | None) -> bool:
    return pid == 0 and host in _NOWHERE


def _nobody(process: RasProcess) -> str:
    return f"process {process.pid} on node {process.host}"


def disbelief(poll: RasPoll) -> list[Problem]:
    """The problem to report of a reply that is corrupt; none of a sound one."""
    if not poll.corrupt:
        return []
    message = f"not believed, nothing in this reply is: {'; '.join(poll.corrupt)}"
    return [Problem(ProblemKind.CORRUPT, poll.source, message)]
