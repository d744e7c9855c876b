"""RAS: what met those who asked, and what its own checks across ranks say. Statements; nobody is accused here.

A connection that is accepted and never answered has reached a process whose RAS thread does not run: the kernel accepts
for it. All processes of a node may listen at the one address, so that another attempt can reach another of them; which
process it was nobody can tell from the connection.
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, counted, quoted, verb
from rankmuster.model.plane import Plane
from rankmuster.model.ras import RasEvent
from rankmuster.model.ras_asking import RasDiagnostic, RasQuery

NAME = "ras-asking"

SHOWN = 4
"""Checks that are quoted; the others are counted."""


def detect(context: Context) -> list[Finding]:
    """Silent connections, then differences that RAS found itself, then events that it reported while it was heard."""
    found = [finding for query in context.evidence.of(RasQuery) if (finding := _silence(query)) is not None]
    return [*found, *_checks(context), *_events(context)]


def _silence(query: RasQuery) -> Finding | None:
    silent = [attempt for attempt in query.attempts if attempt.met == "silent"]
    if not silent:
        return None
    where = ", ".join(dict.fromkeys(attempt.address for attempt in silent))
    statement = (
        f"RAS at {where} accepted {counted(len(silent), 'connection')} and never answered "
        f"{verb(silent, 'it', 'them')}: a process of this node has a RAS thread that does not run (stopped, frozen)"
    )
    answered = sum(attempt.met == "ras" for attempt in query.attempts)
    if answered:
        statement += f"; {counted(answered, 'attempt')} reached one that answers"
    wanted = "the state of the node's processes (T is stopped by a signal)"
    return Finding(NAME, Plane.RAS, statement, (query.source,), would_decide=wanted)


def _checks(context: Context) -> list[Finding]:
    told = [line for line in context.evidence.of(RasDiagnostic) if not line.well]
    if not told:
        return []
    texts = list(dict.fromkeys(quoted(line.text) for line in told))
    statement = f"RAS's own checks across ranks: {'; '.join(texts[:SHOWN])}"
    if len(texts) > SHOWN:
        statement += f"; and {len(texts) - SHOWN} more"
    return [Finding(NAME, Plane.RAS, statement, tuple(line.reference for line in told[:6]))]


def _events(context: Context) -> list[Finding]:
    """Events of the instance's own processes: a service may speak of other jobs of the same user."""
    found = []
    for event in context.evidence.of(RasEvent):
        rank = context.roster.of_process(event.peer.host, event.peer.pid) if event.peer is not None else None
        if rank is not None:
            found.append((event, rank))
    if not found:
        return []
    texts = list(dict.fromkeys(f"{event.event} of rank {rank}" for event, rank in found))
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    evidence = tuple(dict.fromkeys(f"{event.source}#L{event.line}" for event, _ in found))[:6]
    return [
        Finding(NAME, Plane.RAS, f"RAS reported while it was listened to: {', '.join(texts[:SHOWN])}{more}", evidence)
    ]
