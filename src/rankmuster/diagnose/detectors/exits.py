"""Platform, kernel and logs: processes that ended, and which end came first.

After-shocks convict nobody: what ends after the first time-out or the first exit, by SIGABRT or SIGTERM, or at an
unknown time, is a consequence until something else proves it. Blind to hangs.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, ranks_text
from rankmuster.diagnose.ras_view import absences
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import OutOfMemory, PythonException, SignalDeath, WorkerDeath
from rankmuster.model.kernel import KernelEvent, KernelEventKind, OomKill
from rankmuster.model.plane import Plane

NAME = "process-exit"

AFTER_SHOCK_SIGNALS = frozenset({signal.SIGABRT, signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGHUP})
"""Signals by which watchdogs, launchers and operators take victims down."""

TELLING_SIGNALS = frozenset({signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})
"""Signals that end a process for a reason of its own, or by somebody who meant just this one."""


@dataclass(frozen=True, slots=True)
class End:
    """One process's end. `order`: seconds since the epoch, None unknown."""

    rank: int
    code: int
    order: float | None
    source: str
    plane: Plane
    text: str


def detect(context: Context) -> list[Finding]:
    """The first end that nothing else explains, and what of the rest is after-shock."""
    ends = _ends(context)
    found: list[Finding] = []
    oom = _oom_kills(context)
    if not ends and not oom:
        return _exceptions(context, ())
    everybody = context.world
    if ends and len({end.rank for end in ends}) == len(everybody) > 0 and all(end.code == 0 for end in ends):
        statement = (
            f"All {len(everybody)} processes ended with exit code 0: the instance was shut down, or has finished"
        )
        return [Finding(NAME, Plane.PLATFORM, statement, tuple({end.source for end in ends}))]
    suspicious = [end for end in ends if _may_be_first(context, end)]
    for rank, kill in oom:
        suspicious = [end for end in suspicious if end.rank != rank]
        suspicious.append(
            End(
                rank,
                -signal.SIGKILL,
                context.time(kill.origin.stamp),
                f"{kill.origin.source}#L{kill.origin.line}",
                Plane.KERNEL,
                kill.text,
            )
        )
    shocks = [end for end in ends if end not in suspicious and all(end.rank != s.rank for s in suspicious)]
    if shocks:
        ranks = tuple(sorted(end.rank for end in shocks))
        statement = (
            f"{ranks_text(ranks).capitalize()} ended ({', '.join(sorted({_code_text(end.code) for end in shocks}))}) "
        )
        statement += "after the first time-out, by an after-shock's signal, or at an unknown time: that accuses nobody"
        found.append(Finding(NAME, Plane.PLATFORM, statement, tuple(sorted({end.source for end in shocks}))))
    if suspicious:
        found.append(_first_ends(context, suspicious, {rank for rank, _ in oom}))
    return found + _exceptions(context, tuple(end.rank for end in suspicious))


def _ends(context: Context) -> list[End]:
    ends: dict[int, End] = {}
    for rank in context.roster.ranks:
        if rank.exit_code is not None and context.facts is not None:
            ends[rank.rank] = End(
                rank.rank,
                rank.exit_code,
                rank.exited_at,
                context.facts.source,
                Plane.PLATFORM,
                _code_text(rank.exit_code),
            )
    deaths: list[WorkerDeath | SignalDeath] = [*context.evidence.of(WorkerDeath), *context.evidence.of(SignalDeath)]
    for death in deaths:
        number = _victim(context, death)
        if number is None:
            continue
        code = death.exit_code
        if code is None and isinstance(death, SignalDeath):
            code = -death.signal
        if code is None:
            continue
        code = -(code - 128) if code > 128 else code
        time = context.time(death.origin.stamp)
        known = ends.get(number)
        if known is None or (known.order is None and time is not None and known.code == code):
            ends[number] = End(
                number, code, time, f"{death.origin.source}#L{death.origin.line}", Plane.FRAMEWORK_LOG, death.text[:200]
            )
    return sorted(ends.values(), key=lambda end: (end.order is None, end.order or 0.0, end.rank))


def _victim(context: Context, death: WorkerDeath | SignalDeath) -> int | None:
    number = death.rank if isinstance(death, WorkerDeath) else death.victim_rank
    if number is not None and (not context.world or number in context.world):
        return number
    pid = death.pid if isinstance(death, WorkerDeath) else death.victim_pid
    found = context.roster.of_process(None, pid)
    if found is None and isinstance(death, SignalDeath) and death.victim_pid is None and death.victim_rank is None:
        found = death.origin.rank
    return found


def _code_text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _may_be_first(context: Context, end: End) -> bool:
    """Before the first time-out at a known time; or, at an unknown one, missed by RAS before it."""
    if end.code < 0 and -end.code in AFTER_SHOCK_SIGNALS:
        return False
    if end.order is not None:
        return context.first_timeout is None or end.order < context.first_timeout
    if end.plane is not Plane.PLATFORM and context.first_timeout is None:
        return True
    return _missed_early(context, end.rank)


def _missed_early(context: Context, rank: int) -> bool:
    for look in absences(context):
        if look.time is not None and rank in look.unresponsive and len(look.unresponsive) == 1:
            return context.first_timeout is None or look.time < context.first_timeout
    return False


def _oom_kills(context: Context) -> list[tuple[int, OomKill]]:
    found = []
    for kill in context.evidence.of(OomKill):
        rank = context.roster.of_process(kill.origin.host, kill.pid)
        if rank is not None:
            found.append((rank, kill))
    return found


def _first_ends(context: Context, ends: list[End], oom: set[int]) -> Finding:
    timed = [end for end in ends if end.order is not None]
    start = min((end.order for end in timed if end.order is not None), default=None)
    first = [
        end
        for end in ends
        if start is None or (end.order is not None and end.order <= start + context.limits.aftershock_seconds)
    ]
    killed = [end for end in first if end.code < 0]
    # Beside a telling signal, a plain exit within the same second is its consequence.
    named = killed or first
    ranks = tuple(sorted(end.rank for end in named))
    subkind = Subkind.KILLED if killed else Subkind.EXITED
    parts = [f"rank {end.rank}: {end.text}" + (" (out of memory)" if end.rank in oom else "") for end in named[:8]]
    when = "before any time-out" if context.first_timeout is not None else "first"
    if start is None:
        when = "at an unknown time, and RAS missed it before the first time-out"
    cause = _why(context, ranks)
    statement = f"{ranks_text(ranks).capitalize()} ended {when}: {'; '.join(parts)}"
    if cause:
        statement += f". Its log says: {cause}"
    many = len(ranks) * 2 > len(context.world) and len(context.world) > 2
    hosts = {context.job.rank(rank).host for rank in ranks}
    whole = (
        len(hosts) == 1
        and None not in hosts
        and len(context.roster.hosts) > 1
        and set(context.roster.hosts.get(next(iter(hosts)) or "", ())) == set(ranks)
    )
    decisive = bool(killed) and start is not None and context.first_timeout is not None
    return Finding(
        NAME,
        named[0].plane,
        statement,
        tuple(dict.fromkeys(end.source for end in named)) + _segfaults(context, ranks),
        accuse(
            subkind,
            Confidence.CONFIRMED if decisive or set(ranks) & oom else Confidence.LIKELY,
            culprits=ranks if not many else (),
            suspects=ranks if many else (),
            victims=tuple(rank for rank in context.world if rank not in ranks),
            hosts=tuple(host for host in hosts if host) if whole else (),
            why={end.rank: f"ended {when}: {end.text}" for end in named},
            scope=Scope.RANK,
            at=start,
            decisive=decisive or bool(set(ranks) & oom),
        ),
    )


def _segfaults(context: Context, ranks: tuple[int, ...]) -> tuple[str, ...]:
    pids = {context.job.rank(rank).pid for rank in ranks}
    return tuple(
        f"{event.origin.source}#L{event.origin.line}"
        for event in context.evidence.of(KernelEvent)
        if event.kind is KernelEventKind.SEGFAULT and event.pid in pids
    )


def _why(context: Context, ranks: tuple[int, ...]) -> str | None:
    for memory in context.evidence.of(OutOfMemory):
        if memory.origin.rank in ranks:
            return memory.text[:200]
    for raised in context.evidence.of(PythonException):
        if raised.origin.rank in ranks:
            return f"{raised.name}: {raised.message}"[:200]
    return None


def _exceptions(context: Context, ended: tuple[int, ...]) -> list[Finding]:
    """The rank that raised first, where its process is not known to have ended: it will not come to any collective."""
    raised = [
        line
        for line in context.evidence.of(PythonException)
        if not line.consequence and line.origin.rank is not None and line.origin.rank not in ended
    ]
    if not raised or ended:
        return []
    timed = [(context.time(line.origin.stamp), line) for line in raised]
    before = [
        (time, line)
        for time, line in timed
        if time is not None and (context.first_timeout is None or time < context.first_timeout)
    ]
    if before:
        first = min(before, key=lambda item: item[0] or 0.0)[1]
        sure = True
    else:
        ranks = {line.origin.rank for _, line in timed}
        first, sure = timed[0][1], len(ranks) == 1 and len(context.world) > 1 and context.first_timeout is None
        if any(time is not None for time, _ in timed):
            return []
    rank = first.origin.rank
    assert rank is not None
    statement = f"Rank {rank} raised {first.name}: {first.message[:160]}"
    if first.where:
        statement += f" (in {first.where})"
    accusation = accuse(
        Subkind.EXITED,
        Confidence.LIKELY if sure else Confidence.POSSIBLE,
        culprits=(rank,) if sure else (),
        suspects=() if sure else (rank,),
        victims=tuple(other for other in context.world if other != rank) if sure else (),
        why={rank: f"raised {first.name} before anything else went wrong: {first.message[:120]}"},
        scope=Scope.RANK,
        at=context.time(first.origin.stamp),
    )
    return [Finding(NAME, Plane.FRAMEWORK_LOG, statement, (f"{first.origin.source}#L{first.origin.line}",), accusation)]
