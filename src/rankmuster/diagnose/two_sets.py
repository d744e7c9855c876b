"""What an earlier set of dumps adds to the findings: a moving job's tail, or a stop that stands. It accuses nobody."""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, verb
from rankmuster.model.dump_sets import Since
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "two-sets-of-dumps"


def explain(context: Context) -> list[Finding]:
    """One finding where an earlier set was given."""
    between = context.between
    if between is None:
        return []
    statement = between.note[:1].upper() + between.note[1:]
    wanted = None
    if between.since is Since.STANDS and not context.in_motion and any(context.table.heads.values()):
        statement = f"The stop stands: {between.note}"
    if between.since is Since.MIXED:
        still = tuple(sorted((*between.stood, *between.queued)))
        if still:
            statement += f"; {ranks_text(still)} {verb(still, 'stands', 'stand')} as before"
        wanted = "a third set of dumps: whether those that went on have come to an end"
    if not between.believed:
        wanted = "an earlier set of dumps of this run"
    sources = tuple(facts.source for facts in context.dump_facts.values())
    return [Finding(NAME, Plane.FLIGHT, statement, sources[:2], would_decide=wanted)]
