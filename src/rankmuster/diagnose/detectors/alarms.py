"""What engines and torch say of a stop without saying who: quoted, so that nobody has to look for it.

An alarm of one rank is no accusation: who waits is who alarms.
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, counted, quoted
from rankmuster.model.frameworklog import (
    AbortNotice,
    DesyncReport,
    EngineWatchdog,
    StoreError,
    StoreErrorKind,
    ThreadStack,
)
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "alarms"

SHOWN = 3
"""Distinct texts quoted."""


def detect(context: Context) -> list[Finding]:
    """One finding without accusation for engine alarms, one for torch's watchdog."""
    found = []
    alarms = context.evidence.of(EngineWatchdog)
    strong = [line for line in alarms if not line.weak] or list(alarms)
    if strong:
        texts = list(dict.fromkeys(quoted(line.text, 160) for line in strong))
        others = len(alarms) - len(strong)
        statement = f"The engine's own alarm ({strong[0].engine}): {'; '.join(texts[:SHOWN])}"
        if others:
            statement += f" ({counted(others, 'earlier wait')} too)"
        statement += ". It says that something stands, not who: those who wait are those who alarm"
        evidence = tuple(line.origin.reference for line in strong[:4])
        wanted = "stacks of all workers (py-spy dump), their logs, and the GPUs' utilisation at that time"
        found.append(Finding(NAME, Plane.FRAMEWORK_LOG, statement, evidence, would_decide=wanted))
    if context.timeouts:
        first = context.timeouts[0]
        ranks = sorted({line.origin.rank for line in context.timeouts if line.origin.rank is not None})
        number = f" #{first.seq}" if first.seq is not None else ""
        statement = (
            f"torch's watchdog timed out on {len(ranks) or 'some'} of {len(context.world) or 'the'} ranks, first in "
            f"{first.op or 'a collective'}{number} of group {first.group_desc or first.group or '0'}"
        )
        evidence = tuple(line.origin.reference for line in context.timeouts[:4])
        found.append(Finding(NAME, Plane.FRAMEWORK_LOG, statement, evidence))
    found += _stuck_watchdogs(context) + _desync_reports(context)
    lost = [
        error
        for error in context.evidence.of(StoreError)
        if error.kind is StoreErrorKind.STORE_LOST and not context.after_last_look(error.origin.stamp)
    ]
    if lost:
        where = next((error.address for error in lost if error.address is not None), None)
        statement = (
            f"The connection to torch's store{f' at {where}' if where else ''} was lost: {quoted(lost[0].text)}. The "
            "process that holds it (rank 0 or its agent) ended first, or was taken down"
        )
        evidence = tuple(error.origin.reference for error in lost[:4])
        holder = f"the log and the exit code of the process at {where}, which holds torch's store" if where else None
        found.append(Finding(NAME, Plane.FRAMEWORK_LOG, statement, evidence, would_decide=holder))
    return found


def _stuck_watchdogs(context: Context) -> list[Finding]:
    """Aborts by torch's heartbeat monitor: the watchdog thread itself did not run, so no time-out of it came."""
    notices = [notice for notice in context.evidence.of(AbortNotice) if notice.heartbeat]
    if not notices:
        return []
    ranks = sorted({notice.origin.rank for notice in notices if notice.origin.rank is not None})
    statement = (
        f"torch's heartbeat monitor found the watchdog itself stuck{f' on {ranks_text(ranks)}' if ranks else ''}. "
        "A thread holds the interpreter lock (GIL), or a CUDA call does not return: "
        "look there, it is a lead and no proof of who began"
    )
    seen = {stack.origin.rank for stack in context.evidence.of(ThreadStack)}
    bare = [rank for rank in ranks if rank not in seen]
    wanted = f"the stacks of {ranks_text(bare)}, native frames too (py-spy dump --native)" if bare else None
    evidence = tuple(notice.origin.reference for notice in notices[:4])
    return [Finding(NAME, Plane.FRAMEWORK_LOG, statement, evidence, would_decide=wanted)]


def _desync_reports(context: Context) -> list[Finding]:
    """torch's own guess, once: quoted because people search for it, and never an accusation."""
    reports = context.evidence.of(DesyncReport)
    if not reports:
        return []
    first = reports[0]
    behind = sorted({rank for rank, _ in first.laggards})
    named = f"names {ranks_text(behind)} of its group as behind" if behind else "names nobody as behind"
    if first.unfinished:
        named += f" and says that {ranks_text(first.unfinished)} joined without finishing"
    statement = (
        f"torch's own desync report {named}: a lead only, for it reads a store that lags by many operations and is "
        "often wrong"
    )
    evidence = tuple(report.origin.reference for report in reports[:4])
    return [Finding(NAME, Plane.FRAMEWORK_LOG, statement, evidence)]
