"""Platform, kernel and logs: processes that ended, and which end came first.

After-shocks convict nobody: what ends after the first time-out or the first exit, by SIGABRT or SIGTERM, or at an
unknown time, is a consequence until something else proves it. Blind to hangs.
"""

from __future__ import annotations

import signal

from rankmuster.diagnose import departed, engine_state
from rankmuster.diagnose.clock import written
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import crashed, raised
from rankmuster.diagnose.ends import (
    AFTER_SHOCK_SIGNALS,
    End,
    ends,
    killed_rank,
    lived_at,
    shut_down,
    stopped_since,
)
from rankmuster.diagnose.finding import Finding, accuse, quoted
from rankmuster.diagnose.phase import has_served
from rankmuster.diagnose.ras_view import absences
from rankmuster.evidence import names
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import LogSpan, OutOfMemory, PythonException
from rankmuster.model.kernel import OomKill
from rankmuster.model.nccllog import NcclLogFile
from rankmuster.model.plane import Plane
from rankmuster.model.problem import ProblemKind
from rankmuster.model.ranks_text import ranks_text

NAME = raised.NAME

SHOWN = 120
"""Characters of an exception in the reason for a suspect; the finding has more of it."""


def detect(context: Context) -> list[Finding]:
    """The first end that nothing else explains, and what of the rest is after-shock."""
    found = ends(context)
    if not found:
        return raised.first_raised(context) or crashed.nameless(context)
    if shut_down(context, found):
        statement = f"All {len(found)} processes ended with exit code 0: the instance was shut down, or has finished"
        return [Finding(NAME, Plane.PLATFORM, statement, tuple(sorted({end.source for end in found})))]
    alarm, stop = context.first_alarm, stopped_since(context)
    late = None if stop is None else stop + context.limits.stall_seconds
    # A rank that leaves with an error of another's making, or of the path's, says itself that it did not begin it.
    victims = raised.ranks_with_consequences(context)
    suspicious = [end for end in found if _may_be_first(end, alarm, late) and (end.killed or end.rank not in victims)]
    if not suspicious and alarm is None:
        suspicious = _alone_in_motion(context, found)
    findings = []
    shocks = [end for end in found if end not in suspicious]
    if shocks:
        findings.append(_after_shocks(shocks, alarm, late))
    if not suspicious:
        # Where nobody knows how they ended, the kernel may.
        unknown = all(end.code is None for end in found)
        return findings + (raised.first_raised(context) or (crashed.nameless(context) if unknown else []))
    return [*findings, _first_ends(context, suspicious, shocks)]


def _may_be_first(end: End, alarm: float | None, late: float | None) -> bool:
    """Before the first alarm and by `late` at a known time; or, at an unknown one, missed by RAS before the alarm."""
    if end.oom:
        return True
    if end.killed and -(end.code or 0) in AFTER_SHOCK_SIGNALS:
        return False
    if end.order is not None:
        return (late is None or end.order <= late) and (alarm is None or end.order < alarm)
    if end.missed is not None:
        return alarm is None or end.missed < alarm
    return end.plane is not Plane.PLATFORM and alarm is None and not end.after_alarm


def _after_shocks(shocks: list[End], alarm: float | None, late: float | None) -> Finding:
    """One finding for the ends that accuse nobody, grouped by what applies to each."""
    groups: dict[str, list[End]] = {}
    for end in shocks:
        groups.setdefault(_excuse(end, alarm, late), []).append(end)
    told = [
        f"{ranks_text([end.rank for end in group])} ended {excuse} ({', '.join(sorted({end.how for end in group}))})"
        for excuse, group in groups.items()
    ]
    statement = "; ".join(told)
    statement = f"{statement[0].upper()}{statement[1:]}: by itself that accuses nobody"
    return Finding(NAME, shocks[0].plane, statement, tuple(sorted({end.source for end in shocks})))


def _excuse(end: End, alarm: float | None, late: float | None) -> str:
    """Why an end need not be the first failure: the rule of `_may_be_first` that it fell under."""
    if _may_be_first(end, alarm, late):
        return "with an error that tells of the path or of others"
    if end.killed and -(end.code or 0) in AFTER_SHOCK_SIGNALS:
        return "by a signal that takes victims down"
    if end.order is not None:
        return "after the first time-out" if alarm is not None and end.order >= alarm else "after work had stopped"
    if end.after_alarm or end.missed is not None:
        return "after the first time-out"
    return "at an unknown time"


def _alone_in_motion(context: Context, found: list[End]) -> list[End]:
    """The one process that was aborted or terminated while work still moved, and no other before or beside it.

    No watchdog is that fast (their time-outs are ten seconds and more), and a shutdown takes all of them.
    """
    timed = [end for end in found if end.order is not None]
    engine = engine_state.assess(context)
    if not timed or engine is None or engine.last_advance is None:
        return []
    first, order = timed[0], timed[0].order or 0.0
    if not first.killed:
        return []
    slack = context.limits.aftershock_seconds
    if any(end is not first and (end.latest is None or end.latest <= order + slack) for end in found):
        return []
    return [first] if order <= engine.last_advance + context.limits.stall_seconds else []


def _first(context: Context, found: list[End]) -> list[End]:
    """Ends that may be the very first: within a second of the earliest, or at a time that nobody knows."""
    out_of_memory = [end for end in found if end.oom]
    if out_of_memory:
        return out_of_memory
    start = min((end.latest for end in found if end.latest is not None), default=None)
    if start is None:
        return _first_written(found, context.limits.aftershock_seconds)
    return [e for e in found if e.latest is not None and e.latest <= start + context.limits.aftershock_seconds]


def _first_written(found: list[End], slack: float) -> list[End]:
    """The earliest by the times of one file, where its clock cannot be tied to any other; all of them without."""
    stamps = [end.stamp for end in found]
    if None in stamps or len({(end.source.rpartition("#")[0], end.stamp.kind) for end in found if end.stamp}) != 1:
        return found
    start = min(stamp.seconds for stamp in stamps if stamp is not None)
    return [end for end in found if end.stamp is not None and end.stamp.seconds <= start + slack]


def _separated(context: Context, first: list[End]) -> tuple[list[End], bool]:
    """(those of simultaneous ends that explain the others, whether the evidence separates them)."""
    crashed = [end for end in first if end.crashed]
    killed = [end for end in first if end.killed]
    plain = [end for end in first if not end.killed]
    if crashed or not killed or not plain:
        return crashed or killed or plain, True
    exited, struck = (min((e.latest or 0.0 for e in part), default=0.0) for part in (plain, killed))
    if exited >= struck:
        # A plain exit within the same second as a kill is its consequence.
        return killed, True
    with_own = raised.ranks_with_own(context)
    own = [end for end in plain if end.rank in with_own]
    if own or len(killed) > len(plain):
        # A launcher that sees one process fail kills all the others.
        return own or plain, True
    consequences = raised.ranks_with_consequences(context)
    if all(end.rank in consequences for end in plain) or len(plain) > len(killed):
        return killed, True
    return first, False


def _contenders(context: Context, named: list[End], shocks: list[End], start: float | None) -> list[End]:
    """Ends that may have come before those named: by SIGKILL or a crash at an unknown time, aborts before any alarm."""
    if start is None or any(end.killed for end in named) or {e.rank for e in named} <= raised.ranks_with_own(context):
        return []
    looks = absences(context)
    aborts = [end for end in shocks if end.code == -signal.SIGABRT and end.order is not None and end.order < start]
    if context.first_alarm is None and not context.timeouts and aborts:
        # Nobody had anything to abort it for: an assertion of its own ends in SIGABRT, too.
        return aborts
    return [
        end
        for end in shocks
        if end.latest is None
        and end.killed
        and -(end.code or 0) not in AFTER_SHOCK_SIGNALS
        and not lived_at(context, looks, end.rank, start)
    ]


def _when(context: Context, named: list[End]) -> str:
    alarm = context.first_alarm
    if any(end.order is not None for end in named):
        return "before any time-out" if alarm is not None else "first"
    first = departed.first_gone(context)
    if first is not None and [end.rank for end in named] == [first.rank]:
        return "at an unknown time, before any of the others, which are still there"
    if any(end.missed is not None for end in named):
        return f"at an unknown time, and RAS missed it {'before the first time-out' if alarm is not None else 'alone'}"
    stamps = [end.stamp for end in named if end.stamp is not None]
    return f"at {written(min(stamps))}" if stamps and len({s.kind for s in stamps}) == 1 else "at an unknown time"


def _first_ends(context: Context, found: list[End], shocks: list[End]) -> Finding:
    first = _first(context, found)
    named, separated = _separated(context, first)
    start = min((end.order for end in named if end.order is not None), default=None)
    rivals = _contenders(context, named, shocks, start)
    named = sorted([*named, *rivals], key=lambda end: end.rank)
    ranks = tuple(end.rank for end in named)
    oom = {end.rank for end in named if end.oom}
    parts = [end.how + (f" ({quoted(end.text)})" if end.text else "") for end in named[:8]]
    if len(named) > 1:
        parts = [f"rank {end.rank}: {part}" for end, part in zip(named, parts, strict=False)]
    when = _when(context, named)
    statement = f"{ranks_text(ranks).capitalize()} ended {when}: {'; '.join(parts)}"
    if rivals:
        others = ranks_text([end.rank for end in rivals]).capitalize()
        known = all(end.order is not None for end in rivals)
        statement += f". {others} ended before" if known else f". {others} may have ended before: the time is unknown"
    cause = _cause(context, ranks)
    if cause:
        statement += f". Its log says: {cause}"
    if any(end.code == -signal.SIGBUS for end in named):
        statement += ". A full /dev/shm ends in SIGBUS: docker --shm-size, in kubernetes an emptyDir of medium Memory"
    crashes = crashed.segfaults(context, ranks)
    if crashes:
        statement += f". The kernel says: {quoted(crashes[0].text)}"
    kills = _unplaced_kills(context) if any(end.code == -signal.SIGKILL for end in named) and not oom else []
    if kills:
        statement += (
            f". The kernel log has an out-of-memory kill of process {kills[0].pid}, which may be this one's number "
            "outside its container"
        )
    # Where everybody, or most, ended at once, nobody stands out.
    many = len(ranks) == len(context.world) > 1 or (len(ranks) * 2 > len(context.world) and len(context.world) > 2)
    convicted = separated and not rivals and not many and not _unexplained_start(context, named)
    decisive = any(end.killed for end in named) and start is not None and context.first_alarm is not None and convicted
    sure = decisive or (bool(oom) and convicted)
    return Finding(
        NAME,
        named[0].plane,
        statement,
        tuple(dict.fromkeys(end.source for end in named))
        + tuple(event.origin.reference for event in crashes)
        + tuple(kill.origin.reference for kill in kills[:1]),
        accuse(
            Subkind.KILLED if all(end.killed for end in named) else Subkind.EXITED,
            Confidence.CONFIRMED if sure else Confidence.LIKELY,
            culprits=ranks if convicted else (),
            suspects=() if convicted else ranks,
            victims=tuple(rank for rank in context.world if rank not in ranks),
            hosts=_whole_hosts(context, ranks),
            why={end.rank: _why(context, end, when) for end in named},
            scope=Scope.RANK,
            at=start,
            decisive=sure,
        ),
    )


def _unexplained_start(context: Context, named: list[End]) -> bool:
    """A plain exit before any work, which may have given up waiting for the absent.

    What separates it: an error of its own in its log, or others whose errors say that somebody else failed. A cut list
    of processes tells nobody who was first.
    """
    # NCCL at its beginning: logs, a roll call without communicators, or a RAS port that nobody has opened yet.
    unopened = bool(context.polls) and not any(poll.answered for poll in context.polls)
    empty = any(poll.no_communicators for poll in context.polls)
    starting = bool(context.evidence.of(NcclLogFile)) or unopened or empty
    if any(end.killed for end in named) or has_served(context) or not starting:
        return False
    ranks = {end.rank for end in named}
    source = context.facts.source if context.facts is not None else None
    cut = any(p.source == source and p.kind is ProblemKind.DAMAGED for p in context.evidence.problems)
    logged = {names.rank_of(item.path) for item in context.evidence.sources}
    logged |= {span.rank for span in context.evidence.of(LogSpan)}
    if cut or not ranks <= logged:
        return True
    explained = bool(ranks & raised.ranks_with_own(context)) or _cause(context, tuple(ranks)) is not None
    return not explained and not raised.ranks_with_consequences(context) - ranks


def _whole_hosts(context: Context, ranks: tuple[int, ...]) -> tuple[str, ...]:
    """The host, where these are all its ranks and not all ranks."""
    hosts = sorted({context.job.rank(rank).host or "" for rank in ranks})
    if len(hosts) != 1 or not hosts[0] or len(context.roster.hosts) < 2:
        return ()
    return (hosts[0],) if set(context.roster.hosts.get(hosts[0], ())) == set(ranks) else ()


def _unplaced_kills(context: Context) -> list[OomKill]:
    return [kill for kill in context.evidence.of(OomKill) if killed_rank(context, kill) is None]


def _why(context: Context, end: End, when: str) -> str:
    cause = _cause(context, (end.rank,))
    return f"ended {when}: {end.how}" + (f" ({quoted(cause, SHOWN)})" if cause else "")


def _cause(context: Context, ranks: tuple[int, ...]) -> str | None:
    for memory in context.evidence.of(OutOfMemory):
        if memory.origin.rank in ranks:
            return quoted(memory.text)
    for line in context.evidence.of(PythonException):
        if line.origin.rank in ranks:
            first, _, _ = line.message.partition("\n")  # the rest is advice
            return quoted(f"{line.name}: {first}")
    return None
