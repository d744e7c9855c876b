"""Platform: how a group ended as its supervisor saw it: by whose will, and whether the launcher itself was lost.

A launcher that dies takes its ranks with it: its supervisor ends them, and so they accuse nobody. One that ends with a
status of its own, or on a signal that is sent to end things, says nothing of whose fault that was: its output and the
ranks' logs do. Blind to why; and to anything that the supervisor did not see itself.
"""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.ends import AFTER_SHOCK_SIGNALS, code_text, ends
from rankmuster.diagnose.finding import Finding, accuse, counted, quoted
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import PythonException
from rankmuster.model.plane import Plane
from rankmuster.model.supervised import SupervisedEnd

NAME = "launcher-end"

_SIGNALLED = re.compile(r"Process \d{1,10} got signal: (\d{1,2})")


def detect(context: Context) -> list[Finding]:
    """One finding a supervisor: of a group over several hosts each tells of its own."""
    return [_of(context, said) for said in context.evidence.of(SupervisedEnd) if said.over]


def _of(context: Context, said: SupervisedEnd) -> Finding:
    if said.by:
        statement = f"The group was ended by {quoted(said.by)}: its processes' ends accuse nobody"
        return Finding(NAME, Plane.PLATFORM, statement, (said.source,))
    who = f"The launcher ({said.launcher_name or 'the command'}, pid {said.launcher_pid})"
    code = said.launcher_code
    if code is None:
        return Finding(NAME, Plane.PLATFORM, f"{who} ended, and nobody knows how", (said.source,))
    statement = f"{who} ended by itself: {code_text(code)}"
    told = _told_to_end(context)
    if code >= 0 and told is not None:
        statement = (
            f"{who} was told to end by {code_text(-told[0])}, and not by its supervisor: somebody outside did that"
        )
        return Finding(NAME, Plane.PLATFORM, statement, (said.source, told[1]))
    if code >= 0:
        why = "" if said.log is not None else "; what it wrote is in no file (`rankmuster run --log` keeps it)"
        return Finding(NAME, Plane.PLATFORM, f"{statement}{why}", (said.source,))
    if -code in AFTER_SHOCK_SIGNALS:
        statement = f"{who} was told to end by {code_text(code)}, and not by its supervisor: somebody outside did that"
        return Finding(NAME, Plane.PLATFORM, statement, (said.source,))
    if said.ended_after:
        statement += f"; {counted(said.ended_after, 'process', 'processes')} of it lived on and were ended for it"
    first = next((end for end in ends(context) if end.order is not None), None)
    if first is not None and (said.launcher_at is None or (first.order or 0.0) <= said.launcher_at):
        return Finding(NAME, Plane.PLATFORM, f"{statement}. Rank {first.rank} had ended before", (said.source,))
    accusation = accuse(
        Subkind.KILLED,
        Confidence.LIKELY,
        scope=Scope.INSTANCE,
        victims=tuple(context.world),
        at=said.launcher_at,
    )
    return Finding(NAME, Plane.PLATFORM, statement, (said.source,), accusation)


def _told_to_end(context: Context) -> tuple[int, str] | None:
    """(signal, reference): torchrun turns a signal that ends it into an exception, and exits with status 1."""
    for line in context.evidence.of(PythonException):
        match = _SIGNALLED.fullmatch(line.message.strip()) if line.name.endswith("SignalException") else None
        if match is not None and line.origin.rank is None:
            return int(match.group(1)), line.origin.reference
    return None
