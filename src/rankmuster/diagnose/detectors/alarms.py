"""What engines and torch say of a stop without saying who: quoted, so that nobody has to look for it.

An alarm of one rank is no accusation: who waits is who alarms.
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding
from rankmuster.model.frameworklog import EngineWatchdog, StoreError, StoreErrorKind
from rankmuster.model.plane import Plane

NAME = "alarms"

SHOWN = 3
"""Distinct texts quoted."""


def detect(context: Context) -> list[Finding]:
    """One finding without accusation for engine alarms, one for torch's watchdog."""
    found = []
    alarms = context.evidence.of(EngineWatchdog)
    strong = [line for line in alarms if not line.weak] or list(alarms)
    if strong:
        texts = list(dict.fromkeys(line.text[:160] for line in strong))
        others = len(alarms) - len(strong)
        statement = f"The engine's own alarm ({strong[0].engine}): {'; '.join(texts[:SHOWN])}"
        if others:
            statement += f" ({others} earlier waits too)"
        statement += ". It says that something stands, not who: those who wait are those who alarm"
        evidence = tuple(f"{line.origin.source}#L{line.origin.line}" for line in strong[:4])
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
        evidence = tuple(f"{line.origin.source}#L{line.origin.line}" for line in context.timeouts[:4])
        found.append(Finding(NAME, Plane.FRAMEWORK_LOG, statement, evidence))
    lost = [error for error in context.evidence.of(StoreError) if error.kind is StoreErrorKind.STORE_LOST]
    if lost:
        where = next((error.address for error in lost if error.address is not None), None)
        statement = (
            f"The connection to torch's store{f' at {where}' if where else ''} was lost: {lost[0].text[:200]}. The "
            "process that holds it (rank 0 or its agent) ended first, or was taken down"
        )
        evidence = tuple(f"{error.origin.source}#L{error.origin.line}" for error in lost[:4])
        wanted = "the log and the exit code of rank 0, or of the agent that holds the store"
        found.append(Finding(NAME, Plane.FRAMEWORK_LOG, statement, evidence, would_decide=wanted))
    return found
