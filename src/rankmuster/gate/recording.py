"""A bundle of the release under its own load, as the checklist needs it. Pure over the evidence in it."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.bench.profile_from_bundle import NothingRecorded as NoProfile
from rankmuster.bench.profile_from_bundle import profile_of
from rankmuster.diagnose.context import Context, build
from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.environment.calibration import DEFAULT_WINDOW, Calibration, NothingRecorded, calibrate
from rankmuster.environment.recorded import recorded
from rankmuster.environment.version import Version
from rankmuster.evidence.bundle import Evidence
from rankmuster.gate.facts import RankSeen, Recording, Span
from rankmuster.model.benchmark import Profile
from rankmuster.model.job import Job
from rankmuster.model.ras import RasPoll
from rankmuster.model.release import Proof
from rankmuster.model.unknown import Unknown


def recording_of(evidence: Evidence, name: str, proof: Proof, torch: Version) -> Recording:
    """`name`: of the profile that is computed. `torch`: for the names of variables."""
    context = build(evidence, DEFAULTS)
    job = context.job
    facts = job.facts
    names = {one.rank: one.host for one in facts.processes if one.host} if facts is not None else {}
    replies = [poll for poll in job.polls if poll.answered and not poll.no_communicators]
    hosts = {one.host for one in job.ranks}
    processes = {one for poll in replies for one in _named(poll)}
    try:
        computed = profile_of(evidence, name=name)
        profile: Profile | Unknown = computed.profile
        notes = computed.notes
    except NoProfile as error:
        profile, notes = Unknown(f"no profile can be computed from the recording: {error}"), ()
    try:
        calibration: Calibration | Unknown = calibrate(
            [recorded(proof.name, evidence)], window=DEFAULT_WINDOW, torch=torch
        )
    except NothingRecorded as error:
        calibration = Unknown(f"nothing can be calibrated by the recording: {error}")
    return Recording(
        instance=facts.instance if facts is not None else None,
        deployment=facts.deployment if facts is not None else None,
        incarnation=facts.incarnation if facts is not None else None,
        taken_at=context.last_look,
        nccl=next((poll.nccl_version for poll in replies if poll.nccl_version), None),
        environment=facts.environment if facts is not None and facts.environment else None,
        profile=profile,
        notes=notes,
        spans=_spans(job, names),
        ranks=tuple(
            RankSeen(
                one.rank,
                names.get(one.rank, one.host),
                one.pid,
                _seen(one.host, one.pid, processes, several=len(hosts) > 1),
                one.gpu_uuid,
            )
            for one in job.ranks
        ),
        replies=len(replies),
        foreign=len(_foreign(context, processes)),
        calibration=calibration,
        proof=proof,
    )


_Process = tuple[str | None, int | None]
"""(host, pid)."""


def _named(poll: RasPoll) -> list[_Process]:
    return [(rank.host, rank.pid) for one in poll.communicators for rank in one.ranks if rank.pid is not None]


def _seen(host: str | None, pid: int | None, processes: set[_Process], *, several: bool) -> bool:
    """By host and pid. Of one host alone by the pid, where the two name that host differently: containers on several
    hosts have the same pids."""
    if pid is None:
        return False
    same = [one for one in processes if one[1] == pid]
    alone = not several and len({one[0] for one in processes}) == 1
    return any(one[0] == host for one in same) or (alone and bool(same))


def _foreign(context: Context, processes: set[_Process]) -> list[_Process]:
    ranks = {(rank.host, rank.pid) for rank in context.job.ranks if rank.pid is not None}
    pids = {pid for _, pid in ranks}
    alone = len({host for host, _ in ranks}) == 1 and len({host for host, _ in processes}) == 1
    return [one for one in processes if one not in ranks and not (alone and one[1] in pids)] if ranks else []


def _spans(job: Job, names: Mapping[int, str]) -> tuple[Span, ...]:
    """Hosts as whoever started the ranks names them, since admissions do too."""
    found = {}
    for group in job.groups:
        if len(group.members) < 2:
            continue
        hosts = {names.get(rank) or job.rank(rank).host for rank in group.members}
        known = tuple(sorted(host for host in hosts if host is not None))
        found[group.label, group.members] = Span(group.label, len(group.members), known)
    return tuple(sorted(found.values(), key=lambda one: (-one.ranks, one.group)))
